"""Groups of polygons: against the same polygons put into each other in 60 digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.tradeoff import group_of_reports
from jaxpriv.tradeoff.group_of_reports import GroupOfReports
from tests.accounting.test_group import general
from tests.slips import check_is_red

DIGITS = 60


def polygon(experiment):
    """[(level, power)] of a mirrored experiment's vertices, from its losses and the masses of the
    null, in many digits.
    """
    law = experiment.aligned((), np.float64)
    points = [(mpf(0), mpf(0))]
    for mass, loss in zip(law.null[::-1], law.loss[::-1]):
        if loss == np.inf:
            told = mp.exp(mpf(float(law.alternative[-1])))
            points.append((mpf(0), told if told > 0 else mpf(0)))
        elif mass > -np.inf and loss > -np.inf:
            mass = mp.exp(mpf(float(mass)))
            level, power = points[-1]
            points.append((level + mass, power + mass * mp.exp(mpf(float(loss)))))
    return [*points[:-1], (mpf(1) if law.loss[0] > -np.inf else points[-1][0], mpf(1)),
            (mpf(1), mpf(1))]


def through(points, x, inverse=False):
    """The power at a level, or the level of a power."""
    a, b = (1, 0) if inverse else (0, 1)
    for one, two in zip(points, points[1:]):
        if one[a] <= x <= two[a] and one[a] < two[a]:
            return one[b] + (two[b] - one[b]) * (x - one[a]) / (two[a] - one[a])
    return mpf(1)


def profile(experiment, size, eps):
    """log delta of the group: of all levels that some power of g takes to a vertex the best."""
    with mp.workdps(DIGITS):
        points = polygon(experiment)
        told, levels, wanted = points[1][1] if points[1][0] == 0 else mpf(0), [mpf(0)], []
        wanted = [level for level, _ in points if 0 < level < 1]
        for _ in range(size):
            levels += wanted
            wanted = [through(points, x, inverse=True) for x in wanted if x > told]
        best = mpf(0)
        for level in levels:
            power = level
            for _ in range(size):
                power = max(through(points, power), told)
            best = max(best, power - mp.exp(mpf(float(eps))) * level)
        return float(mp.log(best)) if best > 0 else -np.inf


CASES = {
    "response": (worst_case.randomized_response(1.0), 3),
    "box": (worst_case.approximate_dp(0.5, 1e-3), 4),
    "all told": (worst_case.approximate_dp(3.0, 0.01), 6),
    "categories": (worst_case.k_ary_randomized_response(2.0, 10), 5),
    "little noise": (worst_case.rappor(1e-4), 3),
    "hashes": (worst_case.rappor(0.5, 3), 2),
    "repeated": (worst_case.approximate_dp(0.3, 1e-6).compose(5), 3),
    "weak": (worst_case.randomized_response(1e-6), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_polygons_in_polygons(name):
    curve, size = CASES[name]
    group = curve.group(size)
    assert isinstance(group.experiment, GroupOfReports)
    loss = float(curve.experiment.atoms(False)[1])
    for eps in loss * size * np.array([0.0, 0.11, 0.35, 0.72, 0.999, 1.3]):
        truth = profile(curve.experiment, size, eps)
        low, high = group.log_delta_bounds(eps)
        rounding = 1e-12 * size * (1 + loss)  # of the polygon that the truth is made from
        assert low - rounding <= truth <= high + rounding
        if truth > -20.0:
            assert abs(group.log_delta(eps) - truth) < 1e-9
            assert high - low < 1e-8 + 1e-12 * np.exp(-truth)
    below, above = group.epsilon_bounds(np.array([0.1, 1e-3, 1e-6]))
    some = np.isfinite(above)
    assert (above - below < 1e-9 * (1 + above))[some].all()


@pytest.mark.slow
def test_by_the_general_search():
    for curve, size in (CASES["categories"], CASES["box"]):
        group, slow = curve.group(size), general(curve, size)
        for eps in (0.2, 1.5):
            assert np.isclose(group.log_delta(eps), slow.log_delta(eps), rtol=1e-9)
            assert np.isclose(group(0.03), slow(0.03), rtol=1e-9)


def test_what_is_told_for_sure_grows():
    group = worst_case.approximate_dp(1.0, 1e-6).group(5)
    low, high = group.epsilon_bounds(np.array([1e-5, 0.1, 0.999]))
    assert (low[0], high[0]) == (512.0, np.inf)
    assert high[1] - low[1] < 1e-10
    assert high[2] == 0.0
    everything = worst_case.approximate_dp(8.0, 1e-3).group(5)
    assert everything.delta_bounds(30.0)[0] > 1 - 1e-12


@pytest.mark.slow
def test_gradients_and_programs():
    """In jit the same numbers; by its parameters as by differences."""

    def of(loss, told, at):
        return worst_case.approximate_dp(loss, told).compose(3).group(3).log_delta(at)

    def epsilon(loss, told, at):
        return worst_case.approximate_dp(loss, told).group(2).epsilon(at)

    for function, at in ((of, (0.4, 1e-3, 1.1)), (epsilon, (0.6, 1e-6, 0.02))):
        exact = function(*at)
        arrays = [jnp.asarray(x) for x in at]
        value, found = jax.jit(jax.value_and_grad(function, (0, 1, 2)))(*arrays)
        assert np.isclose(value, exact, rtol=1e-11)
        for which, gradient in enumerate(found):
            h = 1e-4 * at[which]
            up, down = (function(*(x + s * h * (j == which) for j, x in enumerate(at)))
                        for s in (1, -1))
            assert np.isclose(gradient, (up - down) / (2 * h), rtol=1e-5)
    low, high = jax.jit(lambda x: worst_case.randomized_response(x).group(3).delta_bounds(0.7))(
        jnp.float32(0.5))
    assert low <= worst_case.randomized_response(0.5).group(3).delta(0.7) <= high


def test_one_inside_another():
    curve = worst_case.k_ary_randomized_response(0.7, 5)
    assert isinstance(curve.group(2).group(3).experiment, GroupOfReports)
    assert curve.group(2).group(3).delta(1.3) == curve.group(6).delta(1.3)
    both = jaxpriv.worst_of(curve.group(2), worst_case.gaussian(0.1))
    assert np.isclose(both.delta(0.5), curve.group(2).delta(0.5), rtol=1e-12)


def left_of(vertices, losses, log_level, log_rest):
    """The side's start for all of it."""
    found, loss = image(vertices, losses, log_level, log_rest)
    return (found[0] + 1e-6, found[1]), loss


image = group_of_reports._image
SLIPS = [
    (group_of_reports, "_image", left_of, lambda: test_polygons_in_polygons("response")),
    (group_of_reports, "_less", lambda one, other: one, lambda: test_polygons_in_polygons("box")),
    (GroupOfReports, "least_power", lambda self, level, slopes: level * 0 + 1.0,
     lambda: test_polygons_in_polygons("categories")),
    (GroupOfReports, "bracket", lambda self, low, high, reverse: self.bracket_by(
        high, *self._split(np.abs(high))[:2]), lambda: test_polygons_in_polygons("little noise")),
]  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip[1])
def test_slip_is_seen(slip, monkeypatch):
    check_is_red(monkeypatch, *slip)
