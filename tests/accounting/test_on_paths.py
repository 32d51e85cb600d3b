"""How fast transforms fall along a line: the bounds against what nodes that follow every frequency
say, and what they are there for.
"""

import numpy as np
import pytest

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.composition import on_paths
from jaxpriv.composition.line import DELTA, along
from jaxpriv.composition.on_paths import MANY
from tests.slips import check_is_red

FREQUENCIES = 10.0 ** np.arange(0, 6.5, 0.5)
STEPS = {
    "seldom": lambda: worst_case.subsampled_gaussian(1.0, 1e-6, 1e5),
    "seldom, far": lambda: worst_case.subsampled_gaussian(0.4, 1e-4, 1000),
    "often": lambda: worst_case.subsampled_gaussian(1.0, 0.3, 10),
    "users": lambda: worst_case.gaussian_mixture([0.0, 1.0, 2.0], [0.9, 0.08, 0.02]).compose(2),
    "replaced": lambda: worst_case.subsampled_gaussian(1.0, 1e-3, 100, adjacency="replace_one"),
}


def check_bound(curve, reverse, eps):
    with np.errstate(all="ignore"):
        terms = curve.experiment.aligned((), np.float64)._directed(np.asarray(reverse))
        _, (tilt,), _ = along(terms, np.asarray(eps), DELTA)
        transform, x = tilt.transform, np.linspace(-30.0, 40.0, 400_001)[:, None]
        loss = transform.loss(x)[0]
        log_p = transform.log_weight(x) + tilt.s * loss
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        decay = tilt.decay(MANY)
        assert decay[1] is not None
        turn = np.max(np.abs(np.diff(loss, axis=0)) * (p[1:] > 1e-13 * p.max()))
        frequencies = FREQUENCIES[FREQUENCIES * turn < 1]  # which the nodes follow
        assert len(frequencies) > 5
        for y in frequencies:
            bound = float(tilt.log_decay(decay, np.asarray([y]))[0])
            # sums of 400,001 terms say nothing below their rounding
            truth = np.log(np.abs(np.sum(p * np.exp(1j * y * loss))))
            assert bound >= truth - 1e-9 or truth < -28
            assert bound <= 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["seldom", "seldom, far", "often", "users"])
def test_bounds_hold(name, reverse):
    check_bound(STEPS[name](), reverse, 0.01)


def test_bound_holds_of_replaced_records():
    curve = STEPS["replaced"]()
    (member,) = getattr(curve.experiment, "members", (curve.experiment,))
    check_bound(jaxpriv.Curve(member), False, 0.1)


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


def test_slip_is_seen(monkeypatch):
    """As if all losses turned twice as fast."""
    right = on_paths.log_decay_on_paths
    from jaxpriv.composition import sampled_gaussian

    check_is_red(monkeypatch, sampled_gaussian, "log_decay_on_paths",
                 lambda decay, y: right(decay, 2 * y),
                 lambda: check_bound(STEPS["seldom"](), False, 0.1))  # fmt: skip


def test_paths_are_no_longer_than_they_save():
    """Of large shifts, whose rule has many nodes: fewer paths, of nodes that fit; one at least."""
    curve = worst_case.gaussian_mixture([0.0, 40.0], [1 - 1e-3, 1e-3]).compose(3)
    terms = curve.experiment.aligned((), np.float64)._directed(np.asarray(False))
    _, (tilt,), _ = along(terms, np.asarray(0.3), DELTA)
    nodes = len(tilt.x)
    sizes = [len(size) for size in tilt.decay(MANY)[1][0]]
    assert sizes[0] == nodes
    assert max(sizes) <= on_paths._NODES < 256 * nodes
    assert sizes == sorted(sizes)
