"""How fast transforms fall along a line: the bounds against what nodes that follow every frequency
say, and what they are there for.
"""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import falling, margins, on_paths
from jaxpriv.composition.line import DELTA, along
from jaxpriv.composition.on_paths import FEW, MANY
from tests.slips import check_is_red

FREQUENCIES = 10.0 ** np.arange(0, 6.5, 0.5)
STEPS = {
    "seldom": lambda: worst_case.subsampled_gaussian(1.0, 1e-6, 1e5),
    "seldom, far": lambda: worst_case.subsampled_gaussian(0.4, 1e-4, 1000),
    "often": lambda: worst_case.subsampled_gaussian(1.0, 0.3, 10),
    "users": lambda: worst_case.gaussian_mixture([0.0, 1.0, 2.0], [0.9, 0.08, 0.02]).compose(2),
    "replaced": lambda: worst_case.subsampled_gaussian(1.0, 1e-3, 100, adjacency="replace_one"),
}


def check_bound(curve, reverse, eps, paths=MANY):
    with np.errstate(all="ignore"):
        terms = curve.experiment.aligned((), np.float64)._directed(np.asarray(reverse))
        _, (tilt,), _ = along(terms, np.asarray(eps), DELTA)
        ends = min(-30.0, tilt.x[0, 0] - 10.0), max(40.0, tilt.x[-1, 0] + 10.0)
        transform, x = tilt.transform, np.linspace(*ends, 400_001)[:, None]
        loss = transform.loss(x)[0]
        log_p = transform.log_weight(x) + tilt.s * loss
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        decay = tilt.decay(paths)
        assert decay[1] is not None
        assert (decay[2] is not None) == (paths == MANY)
        turn = np.max(np.abs(np.diff(loss, axis=0)) * (p[1:] > 1e-13 * p.max()))
        frequencies = FREQUENCIES[FREQUENCIES * turn < 1]  # which the nodes follow
        assert len(frequencies) > 5
        for y in frequencies:
            bound = float(tilt.log_decay(decay, np.asarray([y]))[0])
            # sums of 400,001 terms say nothing below their rounding
            truth = np.log(np.abs(np.sum(p * np.exp(1j * y * loss))))
            assert bound >= truth - 1e-9 or truth < -28
            assert bound <= 0


@pytest.mark.parametrize("paths", [FEW, MANY])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["seldom", "seldom, far", "often", "users"])
def test_bounds_hold(name, reverse, paths):
    check_bound(STEPS[name](), reverse, 0.01, paths)


@pytest.mark.parametrize("paths", [FEW, MANY])
def test_bound_holds_of_replaced_records(paths):
    curve = STEPS["replaced"]()
    (member,) = getattr(curve.experiment, "members", (curve.experiment,))
    check_bound(jaxpriv.Curve(member), False, 0.1, paths)


def settings(count):
    """(noise, rate, steps, eps), of which some tilt far."""
    random = np.random.default_rng(11)
    for _ in range(count):
        noise, rate = np.exp(random.uniform([-1.2, -9.0], [1.6, -0.3]))
        yield noise, rate, float(random.integers(1, 3000)), np.exp(random.uniform(-4, 2))


@pytest.mark.parametrize("setting", list(settings(24)))
def test_bounds_hold_at_random(setting):
    *arguments, eps = setting
    check_bound(worst_case.subsampled_gaussian(*arguments), False, eps, FEW)


@pytest.mark.slow
def test_bounds_hold_of_mixtures_at_random():
    random = np.random.default_rng(12)
    for _ in range(8):
        shifts = np.concatenate([[0.0], np.exp(random.uniform(-2, 1.2, 3))])
        weights = np.exp(random.uniform(-7, 0, 4))
        curve = worst_case.gaussian_mixture(shifts, weights / weights.sum())
        check_bound(curve.compose(20), False, np.exp(random.uniform(-3, 1)), FEW)


def test_paths_end_frequencies_early():
    """Where parts of the law would have a line followed eight times as far."""
    terms = worst_case.subsampled_gaussian(1.0, 1e-3, 1e4).experiment._directed(np.asarray(False))
    with np.errstate(all="ignore"):
        line, tilts, _ = along(terms, np.asarray(0.47), DELTA)
        ends = []
        for soon in (np.inf, 0.0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(margins, "_SOON", (soon, np.inf))
                ends.append(float(margins.margins_of(terms, DELTA, line, tilts).stop))
    assert ends[1] < ends[0] / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "delta", "width"),
    [((1.0, 1e-6, 1e5), 1e-5, 1e-8), ((1.0, 1e-6, 1e5), 1e-6, 1e-7), ((2.0, 1e-5, 1e4), 1e-7, 1e-6),
     ((0.8, 1e-5, 3e4), 1e-5, 1e-7)],
)  # fmt: skip
def test_many_steps_of_which_hardly_one_tells(arguments, delta, width):
    """Where a lattice is 1e-3 wide; it holds the same answer."""
    curve = worst_case.subsampled_gaussian(*arguments)
    low, high = curve.epsilon_bounds(delta)
    assert 0 < low <= high <= low * (1 + width)
    by_laws = jaxpriv.Curve(curve.experiment.on_lattice())
    assert by_laws.delta_bounds(high)[0] <= delta <= by_laws.delta_bounds(low)[1]


def faster(tilt, slopes):
    """As if all losses turned twice as fast."""
    found = TRUE_PATHS(tilt, slopes)
    return found._replace(angle=2 * found.angle)


def straight(tilt, slopes):
    """As if nothing curved between the nodes."""
    return TRUE_PATHS(tilt, slopes._replace(bend=-1e3))


TRUE_PATHS = falling.low_paths


@pytest.mark.parametrize(
    ("attribute", "wrong", "name", "paths"),
    [("log_decay_on_paths", lambda decay, y: on_paths.log_decay_on_paths(decay, 2 * y), "seldom",
      MANY),
     ("low_paths", faster, "often", FEW), ("low_paths", straight, "often", FEW)],
)  # fmt: skip
def test_slips_are_seen(monkeypatch, attribute, wrong, name, paths):
    check_is_red(monkeypatch, falling, attribute, wrong,
                 lambda: check_bound(STEPS[name](), False, 0.1, paths))  # fmt: skip


def test_paths_are_no_longer_than_they_save():
    """Of large shifts, whose rule has many nodes: fewer paths, of nodes that fit; one at least."""
    curve = worst_case.gaussian_mixture([0.0, 40.0], [1 - 1e-3, 1e-3]).compose(3)
    terms = curve.experiment.aligned((), np.float64)._directed(np.asarray(False))
    _, (tilt,), _ = along(terms, np.asarray(0.3), DELTA)
    nodes = len(tilt.x)
    sizes = [len(size) for size in tilt.decay(MANY)[2][0]]
    assert sizes[0] == nodes
    assert max(sizes) <= on_paths._NODES < 256 * nodes
    assert sizes == sorted(sizes)
