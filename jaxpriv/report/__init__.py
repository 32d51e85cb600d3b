"""Reports for people: certificates and their plots."""

from jaxpriv.report.certificate import Mechanism, certify
from jaxpriv.report.dp_sgd import DpSgd

__all__ = ["DpSgd", "Mechanism", "certify"]
