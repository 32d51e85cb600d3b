"""Reports for people: certificates and their plots."""

from jaxpriv.report.certificate import Mechanism, certify

__all__ = ["Mechanism", "certify"]
