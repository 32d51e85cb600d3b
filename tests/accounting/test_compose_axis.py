"""Steps along the last axis of the parameters: as if each stood alone, compositions included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv

W, R = jaxpriv.worst_case, jaxpriv.relaxed
NOISES = np.array([1.0, 2.0, 3.0])


def two_kinds(s):
    return jaxpriv.compose(W.subsampled_gaussian(s, 0.1, 5), W.subsampled_gaussian(2 * s, 0.05, 7))


KINDS = {
    "powers": lambda s: W.gaussian(1 / s).subsample(0.1).compose(50),
    "one kind": lambda s: W.subsampled_gaussian(s, 0.1, 5),
    "symmetric": lambda s: W.subsampled_gaussian(s, 0.1, 5).symmetric(),
    "two kinds": two_kinds,
    "replaced": lambda s: W.subsampled_gaussian(s, 0.1, 5, adjacency="replace_one"),
    "zeroed": lambda s: W.subsampled_gaussian(s, 0.1, 5, adjacency="zero_out"),
    "users": lambda s: W.user_level(s, 0.1, 5, 3),
    "cut": lambda s: W.truncated_gaussian(s, 0.1, 5, 30, 5),
    "relaxed": lambda s: R.subsampled_gaussian(s, 0.1, 3, 10),
    "one step": lambda s: W.laplace(1 / s),
    "lattice": lambda s: W.laplace(1 / s).compose(2),
    "pipeline": lambda s: jaxpriv.compose(W.laplace(1 / s), W.gaussian(1 / s).compose(2)),
    "mixture": lambda s: jaxpriv.mixture(
        [W.laplace(1 / s), W.gaussian(1 / s)], [0.5, 0.5]
    ).compose(2),
    "reversed": lambda s: W.laplace(1 / s).subsample(0.3).compose(2).reversed(),
    "integers": lambda s: W.discrete_gaussian(s, 1).compose(2),
    "allocation": lambda s: W.random_allocation(s, 4).compose(2),
    "group": lambda s: W.laplace(1 / s).group(2),
    "worst": lambda s: jaxpriv.worst_of(W.laplace(1 / s), W.gaussian(1 / s)),
}  # fmt: skip
SLOW = ("allocation", "relaxed", "mixture", "worst")


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in KINDS]
)
def test_as_if_each_stood_alone(name):
    make = KINDS[name]
    found = jaxpriv.compose(make(NOISES), axis=-1).delta_bounds(0.5)
    wanted = jaxpriv.compose(*(make(float(s)) for s in NOISES)).delta_bounds(0.5)
    assert np.shape(found[0]) == ()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["two kinds", "lattice", "symmetric"])
def test_batches_keep_their_other_axes(name):
    noises = np.stack([NOISES, 2 * NOISES])
    found = jaxpriv.compose(KINDS[name](noises), axis=-1).delta(0.5)
    wanted = [jaxpriv.compose(KINDS[name](row), axis=-1).delta(0.5) for row in noises]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_phases_of_their_own_lengths():
    """As schedules have them."""
    steps = np.array([10.0, 20.0, 30.0])
    phases = W.gaussian(1 / NOISES).subsample(0.1).compose(steps)
    wanted = jaxpriv.compose(
        *(W.gaussian(1 / s).subsample(0.1).compose(n) for s, n in zip(NOISES, steps))
    )
    found = jaxpriv.compose(phases, W.gaussian(np.array([0.1, 0.2])), axis=-1)
    wanted = jaxpriv.compose(wanted, W.gaussian(0.1), W.gaussian(0.2))
    np.testing.assert_allclose(found.delta_bounds(0.5), wanted.delta_bounds(0.5), rtol=1e-12)


@pytest.mark.slow
def test_inside_programs():
    def delta(noises):
        return jaxpriv.compose(KINDS["one kind"](noises), axis=-1).delta(0.5)

    np.testing.assert_allclose(jax.jit(delta)(jnp.asarray(NOISES)), delta(NOISES), rtol=1e-9)
