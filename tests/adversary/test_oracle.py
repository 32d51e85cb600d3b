"""The oracle against itself, against 40-digit references, and against a wrong bound that it has to catch."""

import pytest
from flint import arb

from tests.adversary.balls import exact, precision
from tests.adversary.inversion import Composition, shift_part
from tests.adversary.oracle import truth
from tests.adversary.settings import Setting
from tests.adversary.verdict import judge

# log delta of shared/golden (sgm.json, glrt_profile.json): 25 digits
GOLDEN = [
    (("dp_sgd", 1.0, 0.5, 1000.0), 0.1, "reverse", None),
]


def close(a, b, digits):
    with precision(300):
        return bool(abs(a / b - 1) < arb(10) ** -digits)


@pytest.mark.parametrize("eps", [-3.0, -0.5, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("mechanism", [
    ("gaussian", 0.7), ("laplace", 1.3), ("approximate_dp", 1.1, 1e-3), ("relaxed_gaussian", 1.2, 4.5),
    ("relaxed_laplace", 1.7), ("membership", 7.0, 12.0, 5.0), ("subsample", 0.3, ("relaxed_gaussian", 1.0, 3.0)),
    ("power", ("subsample", 0.2, ("randomized_response", 1.0)), 7.0)])
def test_directions_are_tied(mechanism, eps):
    """reverse(eps) = 1 - e^eps (1 - forward(-eps))."""
    reverse, forward = truth(mechanism, eps, "reverse"), truth(mechanism, -eps, "forward")
    with precision(300):
        assert abs(reverse.complement - exact(eps).exp() * forward.complement) < 1e-24


@pytest.mark.parametrize("eps", [-0.4, 0.3, 2.0])
def test_two_lines_two_meshes(eps):
    """The same profile from the neighbouring strips of the transform: other c, other h, other nodes."""
    c = Composition([shift_part(lambda: exact(1.0), 0.3, 12, 1.0), shift_part(lambda: exact(0.5), 0.1, 40, 0.5)])
    with precision(400):
        e = exact(eps)
        delta, complement, rest = (c.value(e, r) for r in ("delta", "complement", "reverse"))
        assert abs(delta + complement - 1) < 1e-24
        assert abs(rest - (delta - 1 + e.exp())) < 1e-24


def test_a_wrong_bound_is_caught():
    """The truth 0.126936737506643946: brackets that miss it by one unit in the last place are violations."""
    setting = Setting(("gaussian", 1.0), "forward", "delta", 1.0)
    low, high = 0.12693673750664395, 0.12693673750664397
    assert judge(setting, 0.12693673750664392, high).kind == "right"
    assert judge(setting, high, high + 1e-9).kind == "violation"
    assert judge(setting, low - 1e-9, 0.12693673750664392).kind == "violation"
    assert judge(setting, float("nan"), high).kind == "violation"
    assert judge(setting, high, low).kind == "violation"
    epsilon = Setting(("gaussian", 1.0), "forward", "epsilon", 0.12693673750664395)
    assert judge(epsilon, 0.999999, 1.0000001).kind == "right"
    assert judge(epsilon, 1.0000001, 1.1).kind == "violation"
    beta = Setting(("gaussian", 1.0), "forward", "beta", 0.05)
    assert judge(beta, 0.740488, 0.740490).kind == "right"
    assert judge(beta, 0.740490, 0.740491).kind == "violation"
