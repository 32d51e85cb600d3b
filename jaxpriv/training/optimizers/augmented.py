"""One gradient per record from several augmentations of it."""

import jax
import jax.numpy as jnp

from jaxpriv._checks import check_key, check_whole


def averaged(loss, augment, count):
    """The loss of a record: its mean over `count` augmentations, drawn from the record's key.

    The gradient of the mean is clipped once, so a record moves the sum by no more than before: any
    number of augmentations has the privacy of one.

    Args:
        loss: (parameters, example, key) -> scalar, as of `clipped_sum` or `DPTrainer`.
        augment: (example, key) -> example, for one example without a batch axis.
        count: of augmentations, at once in memory; 1, 2, 3, ...

    Returns: a loss of the same arguments, which needs a key.
    Guarantee: the sensitivity of `clipped_sum` is unchanged.
    Raises: ValueError for a count outside its range, and without a key.
    Source: De et al. 2022.

        >>> import jax, jax.numpy as jnp
        >>> def loss(w, x, key):
        ...     return w @ x
        >>> flipped = averaged(loss, lambda x, key: x * jax.random.rademacher(key, ()), 1000)
        >>> bool(abs(flipped(jnp.ones(2), jnp.ones(2), jax.random.key(0))) < 0.2)
        True
    """
    check_whole("count", count)

    def mean(parameters, example, key):
        check_key("key", key)

        def once(own):
            of_augment, of_loss = jax.random.split(own)
            return loss(parameters, augment(example, of_augment), of_loss)

        return jnp.mean(jax.vmap(once)(jax.random.split(key, count)))

    return mean
