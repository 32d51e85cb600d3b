"""The oracle against itself, against 40-digit references,
and against a wrong bound that it has to catch.
"""

import math

import numpy as np
import pytest
from flint import arb

from tests.adversary.balls import exact, precision
from tests.adversary.closed import profile
from tests.adversary.inversion import Composition, composed, shift_part
from tests.adversary.oracle import truth
from tests.adversary.paths import Line, Magnitude, Normal, Replaced
from tests.adversary.settings import Setting
from tests.adversary.turned import Turned
from tests.adversary.verdict import judge

# log delta of shared/golden/sgm.json; the last one by panels, to 13 digits and more
GOLDEN = [
    (("dp_sgd", 1.0, 0.01, 1000.0), 2.0, "forward", "-12.835091917456653233044140"),
    (("dp_sgd", 1.0, 0.1, 10.0), 0.5, "reverse", "-5.5816020450245141355173679"),
    (("dp_sgd", 0.8, 0.001, 10000.0), 0.1, "reverse", "-3.2670740924878114795311327"),
    (("dp_sgd", 1.0, 0.5, 10.0), 2.0, "forward", "-1.5408337081100885702496614"),
    (("dp_sgd", 0.6, 0.01, 1000.0), 0.5, "forward", "-1.3507540812495838977061791"),
    (("dp_sgd", 1.0, 0.01, 10.0), 0.1, "forward", "-6.8200799775154789165155897"),
]


@pytest.mark.parametrize(("mechanism", "eps", "direction", "log_delta"), GOLDEN)
def test_golden(mechanism, eps, direction, log_delta):
    found = truth(mechanism, eps, direction)
    digits = 20 if mechanism[3] > 10 or mechanism[2] > 0.05 and mechanism[3] > 2 else 13
    with precision(300):
        assert close(found.log_delta(), arb(log_delta), digits)
        assert found.log_delta().rel_accuracy_bits() > 3.3 * digits


def close(a, b, digits):
    with precision(300):
        return bool(abs(a / b - 1) < arb(10) ** -digits)


@pytest.mark.parametrize("eps", [-3.0, -0.5, 0.0, 0.7, 4.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        ("gaussian", 0.7),
        ("laplace", 1.3),
        ("approximate_dp", 1.1, 1e-3),
        ("relaxed_gaussian", 1.2, 4.5),
        ("relaxed_laplace", 1.7),
        ("membership", 7.0, 12.0, 5.0),
        ("subsample", 0.3, ("relaxed_gaussian", 1.0, 3.0)),
        ("power", ("subsample", 0.2, ("randomized_response", 1.0)), 7.0),
    ],
)
def test_directions_are_tied(mechanism, eps):
    """reverse(eps) = 1 - e^eps (1 - forward(-eps))."""
    reverse, forward = truth(mechanism, eps, "reverse"), truth(mechanism, -eps, "forward")
    with precision(300):
        assert abs(reverse.complement - exact(eps).exp() * forward.complement) < 1e-24


@pytest.mark.parametrize("eps", [-0.4, 0.3, 2.0])
def test_two_lines_two_meshes(eps):
    """The same profile from the neighbouring strips of the transform:
    other c, other h, other nodes.
    """
    c = Composition(
        [shift_part(lambda: exact(1.0), 0.3, 12, 1.0), shift_part(lambda: exact(0.5), 0.1, 40, 0.5)]
    )
    with precision(400):
        e = exact(eps)
        delta, complement, rest = (c.value(e, r) for r in ("delta", "complement", "reverse"))
        assert abs(delta + complement - 1) < 1e-24
        assert abs(rest - (delta - 1 + e.exp())) < 1e-24


def test_a_wrong_bound_is_caught():
    """The truth 0.126936737506643946: brackets that miss it by one unit in the last
    place are violations.
    """
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


SIGNAL, RATE = 1.25, 0.3
PATHS = {  # a step for `turned`, and its profile in closed form
    "normal": (
        Normal(lambda: arb(SIGNAL), lambda: exact(RATE), 1),
        ("subsample", RATE, ("gaussian", SIGNAL)),
    ),
    "magnitude": (
        Magnitude(lambda: arb(SIGNAL) ** 2, 2.9, lambda: exact(RATE), 1),
        ("subsample", RATE, ("relaxed_gaussian", SIGNAL, 2.9)),
    ),
    "replaced": (
        Replaced(lambda: arb(SIGNAL), lambda: exact(RATE), 1),
        ("subsample", RATE, ("gaussian", SIGNAL)),
    ),
}


def once(name, eps, forward):
    """delta of one step, in closed form; of the larger direction where records are replaced."""
    both = [float(profile(PATHS[name][1], exact(eps), way)[0].mid()) for way in (True, False)]
    return max(both) if name == "replaced" else both[0 if forward else 1]


def turned(name, n):
    step = PATHS[name][0]
    step.n = n
    return Turned([step])


CASES = [
    (name, eps, forward)
    for name in PATHS
    for eps, forward in [(0.5, True), (0.1, False)]
    if forward or name != "replaced"  # which is its own reverse
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "eps", "forward"), CASES)
def test_one_step_along_a_turned_ray(name, eps, forward):
    with precision(200):
        found, _ = composed(turned(name, 1), exact(eps), forward)
        assert abs(float(found.mid()) / once(name, eps, forward) - 1) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize(("name", "eps", "forward"), CASES)
def test_two_steps_along_a_turned_ray(name, eps, forward):
    """delta of two steps = E[e^L delta of one at eps - L]; in reverse L is minus the loss."""
    composition = turned(name, 2)
    with precision(200):
        found = float(composed(composition, exact(eps), forward)[0].mid())
    (step,) = composition.steps
    with precision(128):
        total = float(step.constant().mid()) * once(name, eps, forward)
        end = float(step.floor().mid())
        kink = eps if name == "replaced" else eps - end if forward else -end - eps
        for loss, mass in quadrature(step, kink):
            if name == "replaced":
                total += mass * once(name, eps + loss, True)
            gain, share = (loss, math.exp(loss)) if forward else (-loss, 1.0)
            total += mass * share * once(name, eps - gain, forward)
    assert abs(found / total - 1) < 1e-9


def quadrature(step, kink):
    """[(loss, P)] by Gauss-Legendre on panels that shrink towards the loss `kink`."""
    low, high = step.left(-1.0, 40), step.middle + 10
    middle, end = low, high
    for _ in range(50):
        s = 0.5 * (middle + end)
        ((loss, _),) = step.outcomes(Line(), [arb(s)])
        middle, end = (s, end) if float(loss.real.mid()) < kink else (middle, s)
    gaps = [0.0, *(2.0**k for k in range(-12, 0)), *np.arange(1.0, high - low)]
    edges = [middle - gap for gap in gaps[::-1]] + [middle + gap for gap in gaps[1:]]
    nodes, weights = np.polynomial.legendre.leggauss(14)
    for a, b in zip(edges, edges[1:]):
        if low < b and a < high:
            mesh = [arb(s) for s in a + (b - a) / 2 * (1 + nodes)]
            for (loss, mass), w in zip(step.outcomes(Line(), mesh), weights * (b - a) / 2):
                yield float(loss.real.mid()), w * math.exp(float(mass.real.mid()))
