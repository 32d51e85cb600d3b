"""Mixtures of whatever there are curves of: their profiles are the averages of the members'."""

import itertools
import warnings

import jax
import numpy as np
import pytest

import jaxpriv
from jaxpriv.bridges import points

W, R = jaxpriv.worst_case, jaxpriv.relaxed
GAUSSIAN, LAPLACE = W.gaussian(1.0), W.laplace(0.5)


def told(mu, weight):
    return jaxpriv.mixture([W.gaussian(mu), W.gaussian(2 * mu)], [weight, 1 - weight])


KINDS = {  # two of each
    "sampled": [W.subsampled_gaussian(1.0, 0.02, 10), W.subsampled_gaussian(2.0, 0.1, 5)],
    "two parts": [
        jaxpriv.compose(W.subsampled_gaussian(s, 0.05, 4), W.subsampled_gaussian(2.0, q, 20))
        for s, q in ((1.0, 0.1), (1.5, 0.02))
    ],
    "replaced": [W.subsampled_gaussian(s, 0.1, 3, adjacency="replace_one") for s in (1.0, 2.0)],
    "zeroed": [W.subsampled_gaussian(s, 0.1, 3, adjacency="zero_out") for s in (1.0, 2.0)],
    "cut": [W.truncated_gaussian(s, 0.1, 1, 30, 5) for s in (1.0, 2.0)],
    "user": [W.user_level(1.0, q, 1, 3) for q in (0.1, 0.3)],
    "shifts": [W.gaussian_mixture([0.0, 1.0], [1 - q, q]) for q in (0.1, 0.3)],
    "responses": [W.randomized_response(1.0).compose(n) for n in (3, 5)],
    "pipeline": [jaxpriv.compose(GAUSSIAN, LAPLACE), jaxpriv.compose(LAPLACE, W.laplace(1.0))],
    "told": [told(0.5, 0.9), told(1.0, 0.2)],
    "told more": [jaxpriv.mixture([told(0.5, 0.9), GAUSSIAN], [w, 1 - w]) for w in (0.3, 0.9)],
    "told compositions": [
        jaxpriv.mixture([W.subsampled_gaussian(s, 0.02, 10), GAUSSIAN], [w, 1 - w])
        for s, w in ((0.7, 0.3), (1.0, 0.9))
    ],
    "either": [W.subsampled_gaussian(s, 0.2, 3).symmetric() for s in (1.0, 2.0)],
    "worst": [jaxpriv.worst_of(GAUSSIAN, told(s, 0.9)) for s in (1.0, 2.0)],
    "group": [told(s, 0.9).group(2) for s in (0.5, 1.0)],
    "points": [points.curve([e], [1e-3]) for e in (0.5, 1.0)],
    "allocation": [W.random_allocation(s, 4) for s in (1.0, 2.0)],
    "shuffled": [W.shuffled_gaussian(s, 5, 1) for s in (1.0, 2.0)],
    "discrete": [W.discrete_gaussian(s, 1) for s in (1.0, 2.0)],
    "relaxed": [R.subsampled_gaussian(s, 0.1, 3, 10) for s in (1.0, 2.0)],
}
TWO_KINDS = {
    f"{one} and {other}": [KINDS[one][0], KINDS[other][1]]
    for one, other in itertools.pairwise(KINDS)
}


def pairs():
    """Of each kind in both directions, of neighbouring kinds in one after the other."""
    both = [(name, pair, reverse) for name, pair in KINDS.items() for reverse in (False, True)]
    one = [(name, pair, k % 2 == 1) for k, (name, pair) in enumerate(TWO_KINDS.items())]
    return [pytest.param(pair, reverse, id=f"{name}-{reverse}")
            for name, pair, reverse in both + one]


WEIGHTS = np.array([0.25, 0.75])


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "reverse"), pairs())
def test_profiles_are_averages(pair, reverse):
    pair = [curve.reversed() for curve in pair] if reverse else pair
    mixed, eps = jaxpriv.mixture(pair, WEIGHTS), np.array([-0.2, 0.0, 0.3, 1.1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        own = np.array([curve.delta_bounds(eps) for curve in pair])
        low, high = mixed.delta_bounds(eps)
    least, most = np.tensordot(WEIGHTS, own, 1)
    assert np.all(low <= most * (1 + 1e-12))
    assert np.all(high >= least * (1 - 1e-12))
    assert np.all(high <= most * (1 + 1e-3) + 1e-12)
    assert np.all(low >= least * (1 - 1e-3) - 1e-12)
    estimate = mixed.delta(eps)
    assert np.all(estimate >= low - 1e-9)
    assert np.all(estimate <= high + 1e-9)


def test_batches_of_compositions():
    noise = np.array([1.0, 2.0, 3.0])
    pair = [W.subsampled_gaussian(noise, 0.02, 10), W.subsampled_gaussian(1.5, 0.02, 10)]
    found = jaxpriv.mixture(pair, WEIGHTS).delta(0.2)
    assert found.shape == (3,)
    np.testing.assert_allclose(
        found, WEIGHTS @ [np.broadcast_to(c.delta(0.2), 3) for c in pair], rtol=1e-9
    )


@pytest.mark.slow
def test_inside_programs():
    def delta(noise):
        pair = [W.subsampled_gaussian(n, 0.02, 10, adjacency="zero_out") for n in (noise, 1.5)]
        return jaxpriv.mixture([*pair, pair[0]], [0.25, 0.5, 0.25]).delta(0.2)

    np.testing.assert_allclose(jax.jit(delta)(1.0), delta(1.0), rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [lambda: jaxpriv.compose([GAUSSIAN, LAPLACE]), lambda: jaxpriv.worst_of(GAUSSIAN, 3),
     lambda: jaxpriv.mixture([GAUSSIAN, None], [0.5, 0.5])],
)
def test_what_is_no_curve(call):
    with pytest.raises(ValueError, match="for a curve; accepted: curves, one by one"):
        call()
