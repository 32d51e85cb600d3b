"""Auditing: what scores of an attack prove about the privacy of the mechanism that was attacked."""

from jaxpriv.auditing.binomial import clopper_pearson
from jaxpriv.auditing.errors import Audit, Points, Violation, audit
from jaxpriv.auditing.one_run import (
    Guesses,
    OneRun,
    one_run,
    one_run_guesses,
    one_run_p_value,
)
from jaxpriv.auditing.one_run_curve import FamilyBound, one_run_curve_p_value, one_run_family
from jaxpriv.auditing.rates import Rate, advantage, auc, roc, tpr_at_fpr

__all__ = ["Audit", "FamilyBound", "Guesses", "OneRun", "Points", "Rate", "Violation", "advantage",
           "auc", "audit", "clopper_pearson", "one_run", "one_run_curve_p_value", "one_run_family",
           "one_run_guesses", "one_run_p_value", "roc", "tpr_at_fpr"]
