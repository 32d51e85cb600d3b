"""Keys are explicit, new-style and single: an old one, or several,
is one clear error wherever a key is asked for.
"""

import jax
import jax.numpy as jnp
import pytest

from jaxpriv import training
from jaxpriv.attacks import canaries, games

TAKERS = {
    "play": lambda key: games.play(key, lambda key, member: member, lambda output: output * 1.0, 4),
    "mislabelled": lambda key: canaries.mislabelled(key, jnp.zeros(3, int), 3),
    "clipped_sum": lambda key: training.clipped_sum(
        lambda w, x, key: w @ x, jnp.ones(2), jnp.ones((3, 2)), key, clip_norm=1.0
    ),
    "private_mean": lambda key: training.private_mean(
        key, jnp.ones(2), clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=2
    ),
    "add_noise": lambda key: training.add_noise(key, 1.0),
    "poisson_sample": lambda key: training.poisson_sample(key, 10, 0.5, 10),
}


@pytest.mark.parametrize("name", TAKERS)
def test_only_one_new_key(name):
    TAKERS[name](jax.random.key(0))
    several = jax.random.split(jax.random.key(0))
    for key, words in ((jax.random.PRNGKey(0), "is not a JAX key"), (0, "key = 0"),
                       (several, "shape")):
        with pytest.raises(ValueError, match=words):
            TAKERS[name](key)


def test_under_jit():
    """A key that is traced is a key."""
    assert jax.jit(TAKERS["private_mean"])(jax.random.key(0)).shape == (2,)
