"""Steps whose large losses are so seldom that they are left out: what is left, what is missing, and
compositions that had no bounds before.
"""

import math
from functools import partial

import mpmath
import numpy as np
import pytest

from jaxpriv import compose, relaxed, worst_case
from jaxpriv.composition import beside, ended, light
from jaxpriv.composition.sampled_chi_square import SubsampledChiSquareTransform
from jaxpriv.composition.sampled_gaussian import SubsampledGaussianTransform
from jaxpriv.composition.sampled_mixture import GaussianMixtureTransform
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.tradeoff.shifts import Components
from tests.accounting.test_estimates import check_rare_steps_are_no_noise
from tests.adversary.settings import Setting
from tests.adversary.verdict import judge
from tests.slips import check_is_red

MU, RATE = 0.5, 0.01
FORWARD = np.zeros((), bool)


def mixed():
    """The transform of a step that draws each of a user's three records."""
    weights = [math.comb(3, k) * RATE**k * (1 - RATE) ** (3 - k) for k in range(4)]
    parts = Components(tuple(np.array(k * MU) for k in range(4)), tuple(map(np.array, weights)))
    return GaussianMixtureTransform(parts, FORWARD)


def gaussian():
    return SubsampledGaussianTransform(np.array(MU), np.array(RATE), FORWARD)


def replaced():
    return ReplacedGaussianTransform(np.array(MU), np.array(RATE))


def magnitude():
    return SubsampledChiSquareTransform(np.array(4.0), np.array(MU**2), np.array(RATE), FORWARD)


def plain(z):
    return mpmath.npdf(z)


def seen(z):
    return 1 - RATE + RATE * mpmath.exp(MU * z - MU**2 / 2)


def of_users(z):
    return sum(mpmath.binomial(3, k) * RATE**k * (1 - RATE) ** (3 - k)
               * mpmath.exp(k * MU * z - (k * MU) ** 2 / 2) for k in range(4))


def of_length(v):
    """Density of log(e^r - 1), r the length of four normal numbers, and the likelihood ratio."""
    r = mpmath.log1p(mpmath.exp(v))
    density = r**3 * mpmath.exp(-r * r / 2) / 2 * mpmath.exp(v) / (1 + mpmath.exp(v))
    ratio = mpmath.exp(-(MU**2) / 2) * mpmath.hyp0f1(2, (MU * r / 2) ** 2)
    return density, 1 - RATE + RATE * ratio


# transform, z -> (density, 1+u), the z from which on nothing is looked at, powers added to 1+u
KINDS = {
    "gaussian": (gaussian, lambda z: (plain(z), seen(z)), 5.0, 1),
    "users": (mixed, lambda z: (plain(z), of_users(z)), 5.0, 1),
    "replaced": (replaced, lambda z: (plain(z) * seen(z), seen(z) / seen(-z)), 5.0, 0),
    "magnitude": (magnitude, of_length, 6.0, 1),
}


def check_what_is_left(name):
    """Its transform against quadrature, at several powers and frequencies, within what is claimed
    of the rule and of how it falls; what lies beyond, too.
    """
    make, law, last, added = KINDS[name]
    transform = ended._ended(make(), np.array(last))
    for c, frequencies in ((3.0, (0.0, 5.0, 80.0)), (10.0, (0.0, 2.0, 300.0))):
        tilt = transform.tilted(np.array(c))
        size, phase, log_size, angle = tilt.on_path(tilt.height)
        error, decay = float(tilt.line_error()), tilt.decay(8)
        assert error < 0.3
        with mpmath.workdps(20):
            places = [*np.linspace(-10.0, last, 16)]

            def integral(power, places=places):
                return mpmath.quad(lambda z: law(z)[0] * law(z)[1] ** power, places)

            whole = integral(c + added)
            assert float(tilt.value) == pytest.approx(float(mpmath.log(whole)), abs=1.1 * error)
            for y in frequencies:
                found = np.sum(np.exp(size - y * angle) * np.exp(1j * (phase + y * log_size)))
                truth = complex(integral(mpmath.mpc(c + added, y)) / whole)
                assert abs(found - truth) <= error, (c, y)
                bound = np.exp(float(transform.log_decay(decay, np.array(max(y, 1.0)))))
                assert bound >= abs(truth) * (1 - 1e-9) or y == 0.0


def check_what_lies_beyond(name):
    make, law, last, added = KINDS[name]
    absent, moved = make().beyond(np.array(last))
    with mpmath.workdps(30):
        places = [last, last + 2, last + 5, last + 12, last + 30]
        mass = mpmath.quad(lambda z: law(z)[0], places)
        change = mpmath.quad(lambda z: law(z)[0] * abs(
            law(z)[1] - 1 if added else 1 - 1 / law(z)[1]), places)
        assert float(absent) == pytest.approx(float(mpmath.log(mass)), abs=1e-9)
        assert float(moved) >= float(mpmath.log(change)) - 1e-9
        with_record = mpmath.quad(lambda z: law(z)[0] * law(z)[1] ** added, places)
        assert float(np.logaddexp(absent, moved)) >= float(mpmath.log(with_record)) - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_what_is_left(name):
    check_what_is_left(name)


@pytest.mark.parametrize("name", KINDS)
def test_what_lies_beyond(name):
    check_what_lies_beyond(name)


# noise multiplier, sampling rate, steps, delta: of the first two the upper end of epsilon was 4e5
# and 8e3, the others' brackets were up to 1e-2 of epsilon wide
SELDOM = [
    (1.83, 9.47e-5, 2991114, 1.1e-12), (6.0, 2.0e-5, 541489, 1e-11),
    (1.99, 4.31e-5, 972088, 1.3e-13),
    (10.126, 2.24e-4, 28107, 2e-26),
    (2.656, 1.13e-5, 44564, 1.9e-12),
    (6.5, 2.4e-6, 8471, 1.4e-14),
]


def curve_of(noise, rate, steps, delta):
    del delta
    return worst_case.subsampled_gaussian(noise, rate, steps)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SELDOM[2:])
def test_against_balls(setting):
    """Of intervals of 100 digits, for up to a million steps."""
    *mechanism, delta = setting
    curve = curve_of(*setting)
    low, high = curve.epsilon_bounds(delta)
    assert high - low < 1e-10 * high
    asked = Setting(("dp_sgd", *mechanism), "forward", "epsilon", delta)
    assert judge(asked, float(low), float(high)).kind == "right"


def check_narrow():
    for setting in SELDOM:
        curve, delta = curve_of(*setting).symmetric(), setting[-1]
        low, high = curve.epsilon_bounds(delta)
        assert 0 < high - low < 1e-10 * high, setting
        lower, upper = curve.log_delta_bounds(high)
        assert lower <= np.log(delta) * (1 - 1e-14)
        assert upper <= np.log(delta) * (1 - 1e-14)
        assert upper - lower < 1e-8


def check_estimates():
    """They lie where the brackets say."""
    for setting in SELDOM[:4]:
        curve, delta = curve_of(*setting), setting[-1]
        low, high = curve.epsilon_bounds(delta)
        assert low <= curve.epsilon(delta) <= high
        lower, upper = curve.log_delta_bounds(high)
        assert lower <= curve.log_delta(high) <= upper
        low, high = curve.beta_bounds(1e-10)
        assert low <= curve(1e-10) <= high


def check_share():
    """What is missing is no more than was allowed, and what is said."""
    for *mechanism, delta in SELDOM[2:4]:
        noise, rate, steps = mechanism
        terms = curve_of(*mechanism, delta).experiment.aligned((), np.float64).terms
        (left,), missed = light.without_share(terms, np.array(np.log(delta)))
        with mpmath.workdps(30):
            last = mpmath.mpf(float(left.transform.last[0]))
            far = mpmath.ncdf(-last) * (1 - rate) + rate * mpmath.ncdf(1 / mpmath.mpf(noise) - last)
            truth = float(mpmath.log(steps * far))
        assert truth <= missed <= truth + 0.01
        assert missed <= np.log(delta) - 27


def check_missed():
    """Brackets count what may be missing: here, as if that were half of delta."""
    *_, delta = setting = SELDOM[3]
    curve, asked = curve_of(*setting), np.array(np.log(delta))
    terms = curve.experiment.aligned((), np.float64).terms
    left, _ = light.without_share(terms, asked)
    first, eps, last = (np.array(curve.epsilon(share * delta)) for share in (1.5, 1.0, 0.5))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(light, "without_share", lambda terms, value: (left, asked + np.log(0.5)))
        low, high = light.epsilon_bracket(terms, asked, asked)
        assert 0.95 * first < low <= first
        assert last <= high < 1.05 * last
        lower, upper, _ = light.bracket(terms, eps)
        near = [end[0] for end in light.brackets_near(terms, eps, eps * np.array([1.0, 1.01]))]
        for ends in ((lower, upper), near):
            assert ends[0] == pytest.approx(np.log(0.5 * delta), abs=1e-8)
            assert ends[1] == pytest.approx(np.log(1.5 * delta), abs=1e-8)


def test_narrow():
    check_narrow()


def test_estimates():
    check_estimates()


def test_missed():
    check_missed()


def test_share():
    check_share()


# seen by the relaxed adversary, with a record replaced, of users with several records, beside
# Laplace noise; batches that are cut
OTHERS = {
    "relaxed": (lambda: relaxed.subsampled_gaussian(1.83, 9.47e-5, 2991114, 1000), 1.1e-12),
    "relaxed plane": (lambda: relaxed.subsampled_gaussian(1.99, 4.31e-5, 972088, 2), 1.3e-13),
    "replaced": (lambda: worst_case.subsampled_gaussian(
        1.83, 9.47e-5, 2991114, adjacency="replace_one", sampling="poisson"), 1.1e-12),
    "users": (lambda: worst_case.user_level(2.66, 1.13e-5, 44564, 3), 1.9e-12),
    "cut": (lambda: worst_case.truncated_gaussian(
        10.126, 2.24e-4, 28107, dataset_size=100_000, largest_batch=80), 2e-26),
    "seldom cut": (lambda: worst_case.truncated_gaussian(
        1.99, 4.31e-5, 972088, dataset_size=1_000_000, largest_batch=130), 1.3e-13),
    "beside Laplace": (lambda: compose(
        worst_case.subsampled_gaussian(1.99, 4.31e-5, 972088), worst_case.laplace(0.01)), 1.3e-13),
    "below Laplace": (lambda: compose(
        worst_case.subsampled_gaussian(2.66, 1.13e-5, 44564), worst_case.laplace(0.01)), 1.9e-12),
}


def check_other(name):
    make, delta = OTHERS[name]
    low, high = make().epsilon_bounds(delta)
    assert low > 0
    assert high - low < 1e-7 * high


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(name):
    check_other(name)


@pytest.mark.slow
def test_worst_case_is_above_the_relaxed_one():
    for noise, rate, steps, delta in SELDOM[:3]:
        ends = [relaxed.subsampled_gaussian(noise, rate, steps, d).epsilon_bounds(delta)
                for d in (1000, 10, 2, 1)]
        ends.append(worst_case.subsampled_gaussian(noise, rate, steps).epsilon_bounds(delta))
        assert all(less[1] < more[0] for less, more in zip(ends, ends[1:]))


def check_left_out_again():
    """Of what is asked later, further out, all that is missing is counted as well."""
    sgd = worst_case.subsampled_gaussian(1.99, 4.31e-5, 972088)
    entry = compose(sgd, worst_case.laplace(0.01)).experiment.aligned((), np.float64)
    own = beside.beside_of(entry)
    with np.errstate(all="ignore"):
        for log_delta in (-20.0, -40.0):
            (terms, missed), (_, other) = own._without_large(0.15, np.array(log_delta))
            assert log_delta - 29 < missed < log_delta - 27
            # about as much is told by the same lines
            (same, _), _ = own._without_large(0.15, np.array(log_delta + 0.5))
            assert same[0].transform.last == terms[0].transform.last
            assert other == -np.inf
            assert np.isfinite(terms[0].transform.last).all()


def test_left_out_again():
    check_left_out_again()


def unchanged(terms, eps, kind, logs, lost):
    del terms, eps, kind, lost
    return logs


def full_root(terms, start, target, log_share, kind):
    del log_share
    eps, _ = light.root(terms, (start, target), kind)
    return eps, ~np.isnan(eps)


SLIPS = {
    "no error at the end": (ended.Ended, "end_error", lambda self, tilt: 0 * tilt.value,
                            partial(check_what_is_left, "gaussian")),
    "half the tail": (SubsampledGaussianTransform, "beyond",
                      lambda self, z: 2 * (ended.np.log(0.5) - z * z / 2,),
                      partial(check_what_lies_beyond, "gaussian")),
    "one shift": (GaussianMixtureTransform, "beyond",
                  lambda self, z: SubsampledGaussianTransform(self.mu / 3, self.rate / 3,
                                                              FORWARD).beyond(z),
                  partial(check_what_lies_beyond, "users")),
    "nothing is missed": (light, "with_missed", lambda found, missed: found, check_missed),
    "nothing is missed of epsilon": (light, "_less", lambda value, share: value, check_missed),
    "half is missed": (ended, "_ROUNDING", 0.01, check_share),
    "never left out": (light, "without_share", lambda terms, share: (terms, share - 700.0),
                       check_narrow),
    "rules that miss their end": (light, "_rules_serve", lambda *_: np.ones(1, bool),
                                  check_rare_steps_are_no_noise),
    "estimates of everything": (light, "inverted", unchanged, check_estimates),
    "roots of everything": (light, "roots", full_root, check_estimates),
    "all beside Laplace": (beside.Beside, "_without_large", lambda self, *_: self._whole,
                           partial(check_other, "beside Laplace")),
    "no ways end": (ended.EndedTold, "ways", property(ended.CutGaussianTransform.ways.fget),
                    partial(check_other, "cut")),
    "nothing is left out": (beside.Beside, "_without_large", lambda self, *_: self._whole,
                            check_left_out_again),
    "faint is unknown": (beside, "_FAINT", 1e9, partial(check_other, "below Laplace")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])
