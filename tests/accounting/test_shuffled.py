"""Shuffled batches against sampling, sums over a net, mpmath, a plain convolution, published
numbers, and what they are at one step.
"""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import jaxpriv
from jaxpriv.composition import epochs as several
from jaxpriv.curve import Curve
from jaxpriv.report import DpSgd, Mechanism, certify
from jaxpriv.report import shuffled as report
from jaxpriv.report.page import page
from jaxpriv.report.table import render
from jaxpriv.report.training import training_certificate
from jaxpriv.tradeoff import attacked, largest_sum
from jaxpriv.tradeoff.largest_sum import LargestSum
from jaxpriv.training import Privacy
from jaxpriv.training.trainer import Trained
from tests.slips import check_is_red
from tests.training.problems import Cheap

shuffled = jaxpriv.worst_case.shuffled_gaussian
gaussian = jaxpriv.worst_case.gaussian


def attack(noise, steps, absent=1):
    return Curve(LargestSum(1 / noise, float(steps), absent))


def cdf(c, noise, steps, norms):
    """P(the largest sum <= c), by mpmath."""
    return mp.ncdf(c) ** (steps - 1) * mp.ncdf(c - mp.mpf(norms) / noise)


def at_the_kink(noise, steps, eps, reverse, absent=1):
    """delta of the largest sum, from the c at which its densities' ratio is e^eps, by mpmath."""
    with mp.workdps(30):
        noise = mp.mpf(noise)

        def density(c, norms):
            u = c - norms / noise
            rest = mp.ncdf(c) ** (steps - 2)
            return rest * ((steps - 1) * mp.npdf(c) * mp.ncdf(u) + mp.ncdf(c) * mp.npdf(u))

        def excess(c):
            return mp.log(density(c, 2) / density(c, absent)) - (-eps if reverse else eps)

        c = mp.findroot(excess, (-5, 2 / noise + 8), solver="anderson", tol=1e-25)
        present, gone = (cdf(c, noise, steps, norms) for norms in (2, absent))
        if reverse:
            return float(gone - mp.exp(eps) * present)
        return float(1 - present - mp.exp(eps) * (1 - gone))


def check_attack(noise, steps, eps, reverse):
    curve = attack(noise, steps)
    low, high = (curve.reversed() if reverse else curve).delta_bounds(eps)
    truth = at_the_kink(noise, steps, eps, reverse)
    assert low <= truth * (1 + 1e-15)
    assert truth * (1 - 1e-15) <= high
    assert high - low <= 1e-9 * truth


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("noise", "steps", "eps"), [(1.0, 3, 0.5), (0.6, 40, 1.0), (2.0, 2, 0.1)])
def test_the_attack(noise, steps, eps, reverse):
    check_attack(noise, steps, eps, reverse)


@pytest.mark.parametrize("absent", [0, 1])
def test_its_ratio_grows(absent):
    """As is proved in the module: the tests {largest > c} are the best ones."""
    for noise in (0.2, 1.0, 5.0):
        for steps in (1.0, 2.0, 100.0, 1e6):
            t = np.linspace(-6.0, 14.0, 2001)
            pair = LargestSum(np.float64(1 / noise), np.float64(steps), absent)
            assert np.all(np.diff(pair.log_ratio(t)) > -1e-11)


def check_against_tests(noise, steps, epochs, delta, adjacency):
    """No test {largest > c} of one epoch tells more than the lower end, by distribution functions
    of SciPy."""
    curve = shuffled(noise, steps, epochs, adjacency=adjacency)
    low, high = curve.epsilon_bounds(delta)
    absent = int(adjacency == "zero_out")
    c = np.linspace(0, 2 / noise + 8, 100_001)
    powers, alphas = (
        -np.expm1((steps - 1) * norm.logcdf(c) + norm.logcdf(c - norms / noise))
        for norms in (2, absent)
    )
    told = powers - np.exp(low) * alphas
    if epochs == 1:
        assert delta * (1 - 1e-6) <= told.max() <= delta * (1 + 1e-6)
    else:
        assert told.max() <= delta
    assert low < high


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    ("noise", "steps", "epochs"), [(1.0, 1000, 1), (0.5, 100, 1), (0.7, 50, 4)]
)
def test_no_test_of_one_epoch_tells_more(noise, steps, epochs, adjacency):
    check_against_tests(noise, steps, epochs, 1e-5, adjacency)


def test_published_example():
    """Chua et al. 2024: noise 0.4, 10000 steps, epsilon = 4: delta >= 0.226 shuffled, where
    Poisson sampling has 1.18e-5."""
    low, high = shuffled(0.4, 10_000).delta_bounds(4.0)
    assert 0.226 <= low <= 0.2261 < high
    poisson = jaxpriv.worst_case.subsampled_gaussian(0.4, 1e-4, 10_000)
    assert 1.15e-5 < poisson.delta_bounds(4.0)[1] <= 1.18e-5


def of_two_batches(noise, eps, reverse):
    """delta of the attacked data sets for two steps, all that there is to be seen:
    half N(2 e_1) and N(2 e_2) against half N(e_1) and N(e_2), on a fine net."""
    x = np.arange(-8, 2 / noise + 8, 0.02)
    one, two = np.meshgrid(x, x, indexing="ij")

    def density(norms):
        s = norms / noise
        return (norm.pdf(one - s) * norm.pdf(two) + norm.pdf(one) * norm.pdf(two - s)) / 2

    p, q = density(2), density(1)
    p, q = (q, p) if reverse else (p, q)
    return np.maximum(p - np.exp(eps) * q, 0).sum() * 4e-4


def check_two_batches(noise, eps, reverse):
    curve = shuffled(noise, 2)
    low, high = (curve.reversed() if reverse else curve).delta_bounds(eps)
    truth = of_two_batches(noise, eps, reverse)
    assert 0.5 * truth < low <= truth * (1 + 1e-4)
    assert truth < high


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("noise", "eps"), [(1.0, 0.3), (0.6, 1.5)])
def test_the_whole_view_of_two_batches_lies_between(noise, eps, reverse):
    check_two_batches(noise, eps, reverse)


def convolved(noise, steps, epochs, eps, reverse, up):
    """delta of the largest sums of several epochs, with each loss rounded to a multiple of 1/400:
    up, or down, and plainly convolved."""
    c = np.concatenate([[-np.inf], np.linspace(-6, 2 / noise + 9, 200_001), [np.inf]])
    logs = [(steps - 1) * norm.logcdf(c) + norm.logcdf(c - norms / noise) for norms in (2, 1)]
    tails = [-np.expm1(log) for log in logs]
    p, q = (
        np.where(log[1:] < np.log(0.5), np.exp(log[1:]) - np.exp(log[:-1]), tail[:-1] - tail[1:])
        for log, tail in zip(logs, tails)
    )
    p, q = (q, p) if reverse else (p, q)
    keep = (p > 1e-25) & (q > 1e-25)
    p, q = p[keep], q[keep]
    at = (np.ceil if up else np.floor)(np.log(p / q) * 400).astype(int)
    law = np.bincount(at - at.min(), weights=p)
    total, first = np.array([1.0]), 0
    for _ in range(epochs):
        total, first = np.convolve(total, law), first + at.min()
    loss = (first + np.arange(len(total))) / 400
    return np.sum(total * np.maximum(-np.expm1(eps - loss), 0))


def check_epochs(noise, steps, epochs, eps, reverse):
    curve = shuffled(noise, steps, epochs)
    low, high = (curve.reversed() if reverse else curve).delta_bounds(eps)
    least, most = (convolved(noise, steps, epochs, eps, reverse, up) for up in (False, True))
    assert 0.99 * least < low <= most
    assert high == pytest.approx(gaussian(np.sqrt(epochs) / noise).delta(eps), rel=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "eps"), [(0.7, 20, 3, 2.0), (1.0, 100, 5, 1.0)]
)
def test_epochs_are_convolved(noise, steps, epochs, eps, reverse):
    check_epochs(noise, steps, epochs, eps, reverse)


def test_a_loader_that_shuffles():
    """Twenty thousand epochs of eleven records in batches of 3, 3, 3 and 2, and the two data
    sets of the attack: the largest sum's tails are those of its law."""
    rng, noise, count = np.random.default_rng(11), 0.8, 20_000
    sizes = np.array([3, 3, 3, 2])
    ends = np.cumsum(sizes)
    records = np.argsort(rng.random((count, 11)), 1)  # places of the records
    for own, norms in ((1.0, 2), (0.0, 1)):
        values = np.where(records == 0, own, -1.0)
        sums = np.diff(np.cumsum(values, 1)[:, ends - 1], axis=1, prepend=0)
        seen = (sums + sizes + noise * rng.standard_normal(sums.shape)).max(1) / noise
        for c in (0.5, 1.5, 2.5):
            want = float(cdf(c, noise, 4, norms))
            off = np.sqrt(want * (1 - want) / count)
            assert abs(np.mean(seen <= c) - want) < 5 * off


def test_one_step_is_the_gaussian_mechanism():
    for noise, epochs in ((1.0, 1), (2.5, 1), (1.0, 5)):
        low, high = shuffled(noise, 1, epochs).epsilon_bounds(1e-5)
        truth = gaussian(np.sqrt(epochs) / noise).epsilon(1e-5)
        assert truth * (1 - 1e-8) <= low <= truth <= high <= truth * (1 + 1e-11)


def test_many_steps_of_much_noise_have_the_sum():
    """The sum of all sums is the better attack there: a Gaussian mechanism of its own."""
    low, _ = shuffled(4.0, 1000, 50).epsilon_bounds(1e-5)
    assert low == pytest.approx(gaussian(np.sqrt(50 / 1000) / 4).epsilon(1e-5), rel=1e-9)


def check_monotone():
    """More steps hide more, more epochs tell more; replacing tells more than zeroing."""
    lows = [shuffled(1.0, steps).epsilon_bounds(1e-6)[0] for steps in (1, 2, 100, 1e9)]
    assert np.all(np.diff(lows) < 0)
    lows = [shuffled(1.0, 100, epochs).epsilon_bounds(1e-6)[0] for epochs in (1, 2, 5)]
    assert np.all(np.diff(lows) > 0.2)
    one, other = shuffled(1.0, 50), shuffled(1.0, 50, adjacency="replace_one")
    for a, b in zip(one.epsilon_bounds(1e-5), other.epsilon_bounds(1e-5)):
        assert a < b


def test_monotone():
    check_monotone()


def check_directions():
    """delta of the reverse is 1 - e^eps (1 - delta(-eps)); symmetric, the larger of both."""
    for curve in (shuffled(0.7, 30), shuffled(0.7, 30, 3)):
        back = curve.reversed()
        for eps in (0.4, 1.2):
            ends = curve.delta_bounds(-eps)
            want = [1 - np.exp(eps) * (1 - end) for end in ends]
            np.testing.assert_allclose(back.delta_bounds(eps), want, rtol=2e-2)
            both = curve.symmetric().delta_bounds(eps)
            pairs = zip(curve.delta_bounds(eps), back.delta_bounds(eps))
            np.testing.assert_allclose(both, [max(pair) for pair in pairs], rtol=1e-12)
        assert curve.reversed().reversed().delta_bounds(0.4) == curve.delta_bounds(0.4)
    replaced = shuffled(0.7, 30, adjacency="replace_one")
    assert replaced.reversed() is not None
    assert replaced.symmetric().delta_bounds(1.0) == replaced.reversed().delta_bounds(1.0)


def test_directions():
    check_directions()


def check_beta(epochs):
    """The upper end of beta is what the attack reaches, the lower one the theorem's."""
    curve = shuffled(0.6, 60, epochs)
    for alpha in (1e-3, 0.05):
        low, high = curve.beta_bounds(alpha)
        assert low == pytest.approx(gaussian(np.sqrt(epochs) / 0.6)(alpha), rel=1e-6)
        c = np.linspace(0, 12, 100_001)
        logs = [59 * norm.logcdf(c) + norm.logcdf(c - norms / 0.6) for norms in (2, 1)]
        reached = np.min(np.exp(logs[0][-np.expm1(logs[1]) <= alpha]))
        if epochs == 1:
            assert high == pytest.approx(reached, rel=1e-3)
        else:
            assert low < high < 0.9 * reached


@pytest.mark.parametrize("epochs", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_beta(epochs):
    check_beta(epochs)


def check_mu():
    for epochs in (1, 7):
        low, high = shuffled(2.0, 100, epochs).gdp_mu_bounds()
        assert low == pytest.approx(np.sqrt(epochs) / 2, rel=1e-12)
        assert low <= high == pytest.approx(np.sqrt(epochs) / 2, rel=1e-12)
    low, high = shuffled(2.0, 100).gdp_mu_bounds(slack=1e-3)
    assert 0.02 < low < high < 0.5


def test_mu():
    check_mu()


def check_estimates():
    """They are the theorem's: the safe side."""
    curve, upper = shuffled(1.3, 40, 3), gaussian(np.sqrt(3) / 1.3)
    for method, value in (("epsilon", 1e-5), ("delta", 1.0), ("power", 0.1), ("inverse", 0.1),
                          ("slope", 0.1), ("log_delta", 3.0), ("__call__", 0.2)):
        found, want = (getattr(one, method)(value) for one in (curve, upper))
        assert found == pytest.approx(want, rel=1e-13)
    assert curve.auc() == pytest.approx(upper.auc(), rel=1e-14)
    assert curve.advantage() == pytest.approx(upper.advantage(), rel=1e-14)
    assert curve.advantage_bounds()[0] < upper.advantage() <= curve.advantage_bounds()[1]


def test_estimates():
    check_estimates()


@pytest.mark.slow
def test_gradients():
    """Of the estimates in the noise, against differences."""
    for method, value in (("epsilon", 1e-5), ("power", 0.1)):

        def of(noise, method=method, value=value):
            return getattr(shuffled(noise, 40, 3), method)(value)

        with jax.enable_x64(True):
            slope = jax.grad(of)(1.3)
        step = 1e-5
        difference = (of(1.3 + step) - of(1.3 - step)) / (2 * step)
        np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.slow
def test_both_executors():
    """In a program several epochs have the lower end of one."""
    with jax.enable_x64(True):
        for curve, one in ((shuffled(0.7, 30), None), (shuffled(0.7, 30, 4), shuffled(0.7, 30))):
            found = jax.jit(lambda noise, e, n=4 if one else 1: shuffled(noise, 30, n)
                            .delta_bounds(e))(0.7, jnp.array([0.0, 1.0, 3.0]))
            low, high = curve.delta_bounds(np.array([0.0, 1.0, 3.0]))
            np.testing.assert_allclose(found[1], high, rtol=1e-12)
            if one is not None:
                assert np.all(found[0] < low)
                low, _ = one.delta_bounds(np.array([0.0, 1.0, 3.0]))
            np.testing.assert_allclose(found[0], low, rtol=1e-9)
        found = jax.jit(lambda noise: shuffled(noise, 30).epsilon_bounds(1e-5))(0.7)
        np.testing.assert_allclose(found, shuffled(0.7, 30).epsilon_bounds(1e-5), rtol=1e-9)
    with jax.enable_x64(False):
        low, high = jax.jit(lambda noise: shuffled(noise, 30).delta_bounds(1.0))(np.float32(0.7))
    assert low.dtype == jnp.float32
    exact = shuffled(float(np.float32(0.7)), 30).delta_bounds(1.0)
    assert low <= exact[0] <= exact[1] <= high


@pytest.mark.slow
def test_batches():
    noise, steps = np.array([0.7, 2.0]), np.array([[1.0], [100.0]])
    for epochs in (1, 2):
        low, high = shuffled(noise, steps, epochs).epsilon_bounds(1e-5)
        assert low.shape == high.shape == (2, 2)
        for at in np.ndindex(2, 2):
            one = shuffled(noise[at[1]], steps[at[0], 0], epochs).epsilon_bounds(1e-5)
            np.testing.assert_allclose((low[at], high[at]), one, rtol=2e-3 if epochs > 1 else 1e-8)


def check_composition():
    """With itself, with other mechanisms, and of groups."""
    for a, b in zip(shuffled(1.0, 50, 2).compose(3).epsilon_bounds(1e-5),
                    shuffled(1.0, 50, 6).epsilon_bounds(1e-5)):
        assert a == pytest.approx(b, rel=1e-12)
    assert shuffled(1.0, 50).compose(0).epsilon_bounds(1e-5) == (0.0, 0.0)
    both = jaxpriv.compose(shuffled(1.0, 50, 2), gaussian(0.5)).delta_bounds(2.0)
    assert both[1] == pytest.approx(gaussian(1.5).delta(2.0), rel=1e-9)
    assert shuffled(1.0, 50, 2).delta_bounds(2.0)[0] < both[0] < both[1]
    alone = attack(1.0, 50).delta_bounds(1.0)[0]
    assert shuffled(1.0, 50).group(2).delta_bounds(1.0)[0] == pytest.approx(alone, rel=1e-9)
    assert shuffled(1.0, 50).group(2).epsilon(1e-5) == gaussian(2.0).epsilon(1e-5)


def test_composition():
    check_composition()


@pytest.mark.slow
def test_parameters_in_float32():
    """They are exactly those that were given."""
    noise = np.float32(0.7)
    given, exact = (
        jaxpriv.compose(shuffled(one, 50, 2), gaussian(0.5)).delta_bounds(2.0)
        for one in (jnp.asarray(noise), float(noise))
    )
    np.testing.assert_allclose(given, exact, rtol=1e-12)


@pytest.mark.slow
def test_fractional_steps_of_another_mechanism():
    """Between two whole numbers, the lower end of the smaller, the upper one of the larger."""

    def both(steps):
        poisson = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.2, steps)
        return jaxpriv.compose(shuffled(1.0, 50), poisson).delta_bounds(1.0)

    fewer, between, more = map(both, (2.0, 2.5, 3.0))
    np.testing.assert_allclose(between, (fewer[0], more[1]), rtol=1e-12)
    assert fewer[1] < more[1]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [((0.0, 10), {}, r"noise_multiplier = 0.0 is outside its range \(0, inf\)"),
     ((1.0, 0), {}, r"steps = 0.0 is outside its range \[1, 1e9\]"),
     ((1.0, 2.5), {}, "steps = 2.5 is not whole"),
     ((1.0, 10, 0), {}, "epochs = 0 is outside its range 1, 2"),
     ((1.0, 10, 1.5), {}, "epochs = 1.5 is outside its range 1, 2"),
     ((1.0, 10, True), {}, "epochs = True is outside"),
     ((1.0, "ten"), {}, "steps = 'ten' is not a number"),
     ((1.0, 10), {"adjacency": "add_remove"}, "whose batches behind the record differ"),
     ((1.0, 10), {"adjacency": "swap"}, "adjacency = 'swap'; accepted: 'zero_out', 'replace_one'")],
)
def test_hostile_arguments(arguments, options, said):
    with pytest.raises(ValueError, match=said):
        shuffled(*arguments, **options)


def test_what_is_refused():
    curve = shuffled(1.0, 10)
    for refused, said in (
        (lambda: curve.compose(2.5), "n = 2.5 is outside its range 0, 1"),
        (lambda: curve.compose(np.array([1, 2])), "is outside its range"),
        (lambda: curve.subsample(0.5), "a loader shuffles, or it samples"),
        (lambda: jaxpriv.worst_case.subsampled_gaussian(1.0, 0.1, 10, sampling="shuffle"),
         "shuffled_gaussian"),
        (lambda: jaxpriv.compose(curve, gaussian(1.0).subsample(0.1).symmetric()), "symmetric"),
    ):
        with pytest.raises(ValueError, match=said):
            refused()


def check_extremes(noise, steps, epochs, deltas):
    """Brackets in order, never NaN."""
    curve = shuffled(noise, steps, epochs)
    for delta in deltas:
        low, high = curve.epsilon_bounds(delta)
        assert 0 <= low <= high
    ends = curve.delta_bounds(np.array([-np.inf, -50.0, 0.0, 600.0, np.inf]))
    assert np.all((ends[0] >= 0) & (ends[0] <= ends[1]) & (ends[1] <= 1))


@pytest.mark.parametrize("epochs", [1, 3])
def test_extremes(epochs):
    for noise, steps in ((0.03, 2), (1e15, 1e9)):
        check_extremes(noise, steps, epochs, (0.0, 1e-12, 1.0))
    assert np.isnan(shuffled(np.nan, 10, epochs).epsilon_bounds(1e-5)).all()
    assert np.isnan(shuffled(1.0, 10, epochs).delta_bounds(np.nan)).all()


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [1, 3])
def test_more_extremes(epochs):
    for noise, steps in ((1e-15, 1e9), (30.0, 1e9), (1e15, 2)):
        check_extremes(noise, steps, epochs, (1e-300, 0.5))


def check_sentence():
    said = report.if_shuffled((1.0,), 0.01, 1000, 1.83, 1e-5)
    low, high = shuffled(1.0, 100, 10).epsilon_bounds(1e-5)
    assert said["epsilon_lower"] == pytest.approx(low, rel=1e-12)
    assert high <= said["epsilon"] <= high * (1 + 1e-9)
    assert (said["batches"], said["epochs"]) == (100, 10)
    assert "this certificate does not hold" in said["sentence"]
    assert "between 9.3" in said["sentence"]
    # epochs that are not full: all of one above, nothing of it below
    part = report.if_shuffled((1.0,), 0.01, 1001, 20.0, 1e-5)
    assert part["epsilon_lower"] == said["epsilon_lower"]
    assert part["epsilon"] > said["epsilon"] + 0.5
    assert "does not hold" not in part["sentence"]
    assert report.if_shuffled((1.0,), 0.01, 99, None, 1e-5)["epsilon_lower"] == 0
    # of unequal noises the worst above, the best below
    mixed = report.if_shuffled((1.0, 2.0), 0.01, 1000, None, 1e-5)
    assert mixed["epsilon"] == said["epsilon"]
    other = report.if_shuffled((2.0,), 0.01, 1000, None, 1e-5)
    assert mixed["epsilon_lower"] == other["epsilon_lower"] < said["epsilon_lower"]
    # what is drawn instead of normal noise counts above
    drawn = report.if_shuffled((1.0,), 0.01, 1000, None, 1e-5, lambda epsilon: 5e-6)
    assert drawn["epsilon"] > said["epsilon"]
    assert report.if_shuffled((1.0,), 1.0, 10, None, 1e-5) is None
    # 1/rate of 60000/100 is a little more than 600
    assert report.if_shuffled((1.0,), 100 / 60_000, 600, None, 1e-5)["batches"] == 600


def test_sentence():
    check_sentence()


def test_sentence_at_its_ends():
    found = report.if_shuffled((1e-15,), 0.5, 2, None, 1e-5)
    assert found["epsilon"] is None
    assert "∞ (proven)" in found["sentence"]
    assert report.if_shuffled((1.0,), 1e-12, 10**13, None, 1e-5)["epsilon_lower"] == 0
    for arguments in (((0.0,), 0.1, 10, None, 1e-5), ((1.0,), 0.0, 10, None, 1e-5),
                      ((1.0,), 0.1, 10, None, 1.0)):
        with pytest.raises(ValueError, match="outside its range"):
            report.if_shuffled(*arguments)


@pytest.mark.slow
def test_certificates_say_so(monkeypatch):
    """In JSON, in the terminal's text, and on the page of a training."""
    monkeypatch.setattr(DpSgd, "relaxed", DpSgd.worst_case)  # which takes seconds
    certificate = certify(DpSgd(dataset_size=10, batch_size=5, epochs=0.5, noise_multiplier=2.0))
    said, worst = certificate["if_shuffled"], certificate["adversaries"][0]
    assert said == report.if_shuffled((2.0,), 0.5, 1, worst["epsilon"], 1e-5)
    assert said["sentence"] in render(certificate).lines
    assert certify(Mechanism("gaussian", (1.0,), (1.0,)))["if_shuffled"] is None
    plan = Cheap(200, 40.0, (1.0,) * 11, 5)
    trained = Trained(None, Privacy(mu=1.0), plan, 11, 11, 1.0, [], True, np.zeros(0),
                      np.zeros(0, bool), None)
    certificate = training_certificate(trained, None, None)
    said = certificate["if_shuffled"]
    assert (said["batches"], said["epochs"]) == (5, 3)
    assert said["epsilon_lower"] == pytest.approx(shuffled(1.0, 5, 2).epsilon_bounds(1e-5)[0])
    assert said["epsilon"] >= gaussian(np.sqrt(3)).epsilon_bounds(1e-5)[1]
    assert said["sentence"] in page(certificate)


def larger(pair):
    return pair.mu * 1.02


def test_slips_turn_red(monkeypatch):
    """Plausible slips, and the checks that notice."""

    def check_one():
        check_attack(1.0, 3, 0.5, False)

    def check_several():
        check_epochs(0.7, 20, 3, 2.0, False)

    law = largest_sum.Largest
    below, gap = law._below, LargestSum.log_gap

    def n_fewer(self, t):
        return below(law(self.s, self.n - 1), t)

    def off(self, eps, *rest):
        return gap(self, eps - 1e-3, *rest)

    true_bins, true_seen = largest_sum._bins, attacked.seen_below
    for where, name, wrong, check in (
        (law, "_below", n_fewer, check_one),
        (LargestSum, "log_gap", off, check_one),
        (LargestSum, "_signal", larger, check_one),
        (largest_sum, "_bins", lambda mu, *rest: true_bins(mu * 1.05, *rest), check_several),
        (several, "seen_below", lambda *rest: [0.5 * end for end in true_seen(*rest)],
         check_monotone_in_epochs),
        (attacked.Attacked, "least_gaussian_mu", lambda self: None, check_mu),
        (attacked.Attacked, "beta_bracket", lambda self, alpha: None, lambda: check_beta(1)),
        (attacked.Attacked, "reversed", lambda self: self, check_directions),
        (attacked.Attacked, "slope", lambda self, a, r: self.upper.slope(a * 0.99, r),
         check_estimates),
        (several.Epochs, "compose", lambda self, n: self, check_composition),
        (several.laid, "near", lambda entry, tables, eps: np.full_like(eps, 0.1),
         check_many_losses_share_laws),
        (report.worst_case, "gaussian", lambda mu: gaussian(0.99 * mu), check_sentence),
    ):
        largest_sum._bins.cache_clear() if hasattr(largest_sum._bins, "cache_clear") else None
        check_is_red(monkeypatch, where, name, wrong, check)


def check_many_losses_share_laws():
    """To a thousandth of what each is alone."""
    curve, eps = shuffled(1.0, 100, 5), np.linspace(0.05, 8.0, 17)
    alone = [curve.delta_bounds(one)[0] for one in eps]
    np.testing.assert_allclose(curve.delta_bounds(eps)[0], alone, rtol=2e-3)
    levels = np.array([0.01, 0.1, 0.3, 0.5, 0.8])
    alone = [curve.beta_bounds(level)[1] for level in levels]
    np.testing.assert_allclose(curve.beta_bounds(levels)[1], alone, atol=5e-3)


@pytest.mark.slow
def test_many_losses_share_laws():
    check_many_losses_share_laws()


def check_monotone_in_epochs():
    one, two = (shuffled(1.0, 100, epochs).epsilon_bounds(1e-6)[0] for epochs in (1, 2))
    assert two > one
