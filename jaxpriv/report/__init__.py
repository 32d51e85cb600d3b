"""Reports for people: certificates and their plots."""

from jaxpriv.report.certificate import Mechanism, certify
from jaxpriv.report.dp_sgd import DpSgd
from jaxpriv.report.pipeline import Pipeline
from jaxpriv.report.verification import read_certificate, verify

__all__ = [
    "DpSgd", "Mechanism", "Pipeline", "certify", "certify_training", "read_certificate", "verify",
]  # fmt: skip


def __getattr__(name):
    """`certify_training` brings in what trainings need, which takes a while to import."""
    if name == "certify_training":
        from jaxpriv.report.training import certify_training

        return certify_training
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
