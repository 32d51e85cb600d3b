"""The catalogue's newer curves against their definitions: new random settings on every run, and the
definitions against each other. ADVERSARY_SEED repeats a run.
"""

import time

import pytest
from flint import arb

from tests.adversary.balls import exact, one, precision, zero
from tests.adversary.campaign import examined
from tests.adversary.catalogue import CATALOGUE, CONSTANT, ONE_STEP
from tests.adversary.dealt import Both
from tests.adversary.definitions import gaussian, law, total
from tests.adversary.lines import Line
from tests.adversary.oracle import truth
from tests.adversary.settings import Draw, Setting
from tests.adversary.test_adversary import SEED, SOON, refuse
from tests.adversary.verdict import judge


def drawn_for(seconds, plan, count):
    draw, begun, wrong, judged, k = Draw(SEED), time.monotonic(), [], 0, 0
    plan = [plan[i] for i in draw.random.permutation(len(plan))]
    while time.monotonic() - begun < seconds:
        family, mode, methods = plan[k % len(plan)]
        k += 1
        for s, b, v in examined(family, mode, count, SEED + 104_729 * k, methods):
            judged += v.kind in ("right", "violation", "undecided")
            if v.kind == "violation":
                wrong.append((mode, s, b, v))
    assert judged > 0
    refuse(wrong)


@pytest.mark.slow
def test_new_settings_of_single_mechanisms():
    drawn_for(3, [(family, "eager", SOON) for family in (*ONE_STEP, *CONSTANT)], 4)


@pytest.mark.slow
def test_new_settings_of_all():
    methods = (*SOON, "epsilon")
    drawn_for(15, [(f, mode, methods) for f in CATALOGUE for mode in ("eager", "scalar")], 2)


@pytest.mark.slow
def test_new_settings_inside_programs():
    def methods(family):
        # a search for mu takes minutes to compile where members' numbers of steps are not known
        return SOON if family == "told" else (*SOON, "mu")

    drawn_for(10, [(f, mode, methods(f)) for f in ONE_STEP for mode in ("jit32", "jit64")], 16)


SAME = [  # two definitions of one curve
    (("points", "1.25", "0.001"), ("approximate_dp", 1.25, 0.001)),
    (("points", "1.25", "2.0", "0.0", "0.25"), ("randomized_response", 1.25)),
    (("points", "0.0", "3.0", "0.25", "0.25"), ("approximate_dp", 0.0, 0.25)),
    (("losses", "0.0", "0.75"), ("approximate_dp", 0.0, 0.25)),
    (("kary", "2", 1.3), ("randomized_response", 1.3)),
    (("discrete_laplace", "1", 0.7), ("randomized_response", lambda: 1 / exact(0.7))),
    (("unary", "symmetric", 1.5), ("power", ("randomized_response", 0.75), 2.0)),
    (("rappor", "3", 0.5), ("power", ("rappor", "1", 0.5), 3.0)),
    (("user_level", "1", 0.8, 0.1, 1.0), ("zeroed", 0.8, 0.1, 1.0)),
    (("zeroed", 0.5, 0.1, 1.0), ("subsample", 0.1, ("gaussian", 2.0))),
    (("gaussian_mixture", 0.0, 1.25, 0.75, 0.25), ("subsample", 0.25, ("gaussian", 1.25))),
    (("replaced", 2.0, 1.0, 1.0), ("gaussian", 1.0)),
    (("cut_added", "30", "30", 0.8, 0.1, 1.0), ("zeroed", 0.8, 0.1, 1.0)),
    (("cut_replaced", "30", "29", 2.0, 1e-9, 1.0), ("replaced", 2.0, 1e-9, 1.0)),
    (("group", "1", ("kary", "2", 0.75)), ("randomized_response", 0.75)),
    (("worst_of", ("kary", "5", 1.0), ("kary", "2", 1.0)), ("randomized_response", 1.0)),
    (("reversed", ("reversed", ("zeroed", 0.8, 0.1, 1.0))), ("zeroed", 0.8, 0.1, 1.0)),
    (("reversed", ("gaussian", 1.25)), ("gaussian", 1.25)),
]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(("first", "second"), SAME)
def test_definitions_agree(first, second, forward):
    for eps in (-0.4, 0.0, 0.17, 1.1):
        with precision(300):
            a, b = (total(law(m), arb(eps), forward) for m in (first, second))
            assert a[0].overlaps(b[0]) or abs(a[0] - b[0]) < 1e-25
            assert abs(a[0] + a[1] - 1) < 1e-25


def test_an_exchanged_pair_is_the_other_direction():
    member = ("zeroed", 0.8, 0.1, 1.0)
    with precision(300):
        for eps in (-0.4, 0.17, 1.1):
            for forward in (True, False):
                found = total(law(("reversed", member)), arb(eps), forward)[0]
                assert abs(found - total(law(member), arb(eps), not forward)[0]) < 1e-25


@pytest.mark.parametrize("mechanism", [("subsample", 0.3, ("gaussian", 1.0)), ("gaussian", 0.7)])
def test_the_line_agrees_with_closed_forms(mechanism):
    with precision(200):
        for eps in (-2.0, 0.1, 3.0):
            for forward in (True, False):
                found = total(law(mechanism), arb(eps), forward)[0]
                known = truth(mechanism, eps, "forward" if forward else "reverse").delta
                assert abs(found - known) < 1e-35


def test_integrals():
    """Of two Gaussian steps, and of both directions of an allocation."""
    with precision(128):
        both = Both(gaussian(arb(1)), gaussian(arb(0.5)))
        whole = gaussian(arb(1.25).sqrt())
        for eps in (0.3, -0.5):
            for forward in (True, False):
                found, known = (x.profile(arb(eps), forward)[0] for x in (both, whole))
                assert found.overlaps(known)
                assert found.rel_accuracy_bits() > 25
        (_, _, pair), eps = law(("allocation", "2", 0.9))[0], arb(0.4)
        delta, complement = pair.profile(eps, True)
        assert abs(delta + complement - 1) < 1e-12
        assert abs(pair.profile(-eps, False)[1] - (-eps).exp() * complement) < 1e-12


def test_the_most_of_an_interval_of_losses():
    """The best two-point law with mean ratio 1 in [e^(t - r), e^t], by trying t."""
    with precision(100):
        r, eps = 1.5, 0.3
        tried = []
        for k in range(1, 1500):
            t = r * k / 1500
            top, low = arb(t).exp(), arb(t - r).exp()
            tried.append((1 - low) / (top - low) * (top - arb(eps).exp()))
        best = max(tried, key=float)
        found = total(law(("exponential", "any", r)), arb(eps), True)[0]
        assert best < found + 1e-20
        assert found < best + 1e-6


@pytest.mark.parametrize(
    "mechanism",
    [
        ("kary", "10", 2.0),
        ("discrete_gaussian", "2", 1.5),
        ("cut_zeroed", "50", "10", 1.0, 0.3, 1.0),
        ("user_level", "3", 1.0, 0.1, 1.0),
        ("compose", ("unary", "optimised", 1.0), ("replaced", 1.0, 0.3, 1.0)),
        ("mixture", (("kary", "3", 1.0), ("zeroed", 1.0, 0.1, 1.0)), (0.25, 0.75)),
        ("group", "2", ("unary", "symmetric", 0.5)),
    ],
)
def test_a_wrong_bracket_is_caught(mechanism):
    value = float(truth(mechanism, 0.1).delta.mid())
    near = value * (1 - 1e-9), value * (1 + 1e-9)
    setting = Setting(mechanism, "forward", "delta", 0.1)
    assert judge(setting, *near).kind == "right"
    assert judge(setting, near[1], 1.0).kind == "violation"
    assert judge(setting, 0.0, near[0]).kind == "violation"
    assert judge(setting, near[1], near[0]).kind == "violation"


def test_ends_of_the_losses():
    """A weight on no shift ends them; a ratio that does not grow without end does."""
    with precision(100):
        line = Line([(one(), zero())], [(arb(0.25), zero()), (arb(0.75), arb(2))])
        assert abs(line.end(-1) - arb(0.25).log()) < 1e-25
        assert line.end(1) is None
        assert line.profile(arb(1.4), False) == (zero(), one())
        assert line.profile(arb(1.38), False)[0] > 0
