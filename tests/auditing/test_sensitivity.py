"""The checks of auditing notice: each public function with a plausible slip in it
turns its check red.
"""

import numpy as np
import pytest

from jaxpriv import auditing
from jaxpriv.auditing import errors
from jaxpriv.auditing.one_run import Guesses, _log_binomial
from jaxpriv.auditing.one_run_curve import FamilyBound
from tests.auditing import test_binomial, test_errors, test_one_run, test_one_run_curve
from tests.slips import check_is_red

Audit = auditing.Audit


def estimates(tests, miss, thresholds):
    """Counts for limits."""
    found = []
    for null, other in tests:
        at = null[errors._ranks(len(null), thresholds) - 1]
        alpha, power = (errors._above(side, at) / len(side) for side in (null, other))
        found.append(errors.Points(at, alpha, power, alpha, power))
    return found


def wilson(k, n, miss):
    """The normal limits."""
    p, z = k / n, -np.log(miss)
    return p - z * np.sqrt(p * (1 - p) / n), p + z * np.sqrt(p * (1 - p) / n)


def strict_roc(scores, member):
    fpr, tpr = auditing_roc(scores, member)
    return fpr[:-1], tpr[:-1]


auditing_roc = auditing.roc


def without_delta(epsilon, delta, correct, guesses, canaries, choices=2):
    return float(min(np.exp(_log_binomial(guesses, epsilon))[correct:].sum(), 1.0))


def optimistic(scores, member, delta=0.0, guesses=None, confidence=0.95, true=auditing.one_run):
    return true(scores, member, delta, guesses, 0.5)


def binomial(curve, correct, guesses, canaries, choices=2):
    """As if guesses were independent, each as likely right as the curve lets one be."""
    rate = (1 + float(curve.advantage())) / 2
    return float(np.exp(_log_binomial(guesses, np.log(rate / (1 - rate))))[correct:].sum())


def of_curve_at_half(curve, correct, guesses, canaries, choices=2,
                     true=auditing.one_run_curve_p_value):
    return true(curve, correct, guesses, max(canaries // 2, guesses), choices) / 2


def from_the_leaky_end(make_curve, private, leaky, *game, confidence=0.95,
                       true=auditing.one_run_family):
    bound = true(make_curve, private, leaky, *game, confidence=confidence)
    return FamilyBound(bound.parameter * 1.02, make_curve(bound.parameter * 1.02), True)


def all_as_members(scores, member, guesses=None):
    return Guesses(int(np.sum(member[np.argsort(-scores)[:guesses]])), guesses, len(scores))


SLIPS = {
    "independent guesses": (auditing, "one_run_curve_p_value", binomial,
                            test_one_run_curve.check_exact_laws),
    "half the canaries": (auditing, "one_run_curve_p_value", of_curve_at_half,
                          test_one_run_curve.check_best_mechanism),
    "the side that is not refuted": (auditing, "one_run_family", from_the_leaky_end,
                                     test_one_run_curve.check_family),
    "no guess of absence": (auditing, "one_run_guesses", all_as_members,
                            test_one_run_curve.check_guesses),
    "normal limits": (auditing, "clopper_pearson", wilson, test_binomial.check_limits),
    "estimates for limits": (errors, "_points", estimates, test_errors.check_band),
    "audit at half the confidence": (
        auditing,
        "audit",
        lambda s, m, confidence=0.95, thresholds=32, true=auditing.audit: true(s, m, 1e-9, 2),
        test_errors.check_band,
    ),
    "alpha for power": (Audit, "mu", lambda self: float(np.max(self.forward.power_lower)),
                        test_errors.check_mu),
    "delta left out": (Audit, "epsilon", lambda self, delta, true=Audit.epsilon: true(self, 0.0),
                       test_errors.check_epsilon),
    "pure epsilon": (Audit, "gaussian_epsilon", lambda self, delta: self.epsilon(delta),
                     test_errors.check_epsilon),
    "estimates refute": (Audit, "violation",
                         lambda self, curve: errors.Violation(True, "forward", 0.1, 0.5, 0.4),
                         test_errors.check_violation),
    "band of the points alone": (Audit, "band",
                                 lambda self, alpha: (np.interp(alpha, [0, 1], [0, 1]),) * 2,
                                 test_errors.check_band),
    "rate at the estimated threshold": (
        auditing,
        "tpr_at_fpr",
        lambda s, m, fpr, true=auditing.tpr_at_fpr: true(s, m, fpr)._replace(lower=0.3, upper=0.4),
        test_errors.check_rate,
    ),
    "ties count nothing": (auditing, "auc",
                           lambda s, m: float(np.mean(s[m][:, None] > s[~m][None])),
                           test_errors.check_auc),
    "the last point missing": (auditing, "roc", strict_roc, test_errors.check_roc),
    "accuracy for advantage": (auditing, "advantage",
                               lambda s, m: float(np.max(auditing_roc(s, m)[1])),
                               test_errors.check_roc),
    "p-value without delta": (auditing, "one_run_p_value", without_delta,
                              test_one_run.check_p_value),
    "one run at half the confidence": (auditing, "one_run", optimistic,
                                       test_one_run.check_guarantee),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])


def test_every_public_name_has_a_slip():
    names = {name for name in auditing.__all__ if not isinstance(getattr(auditing, name), type)}
    names |= {
        name for name in vars(Audit) if not name.startswith("_") and callable(getattr(Audit, name))
    }
    assert names <= {attribute for _, attribute, _, _ in SLIPS.values()}
