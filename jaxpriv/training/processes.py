"""What several processes that train together have to agree on;
with one process there is nothing to do.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.random import key_of
from jaxpriv.training.keys import Keys


def same_everywhere(keys):
    """Several processes take the keys of the first."""
    if jax.process_count() == 1:
        return keys
    from jax.experimental import multihost_utils

    *data, words = multihost_utils.broadcast_one_to_all(
        [*(np.asarray(jax.random.key_data(key)) for key in keys[:3]), np.asarray(keys.words)]
    )
    noise, sampling, model = map(key_of, data)
    return Keys(noise, sampling, model, jnp.asarray(words), keys.secret, keys.private)


def wait(name):
    """Until all processes are here."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def placed(array, sharding):
    """The same array of every process as one that is spread over all their devices."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def gathered(array):
    """All of an array that may be in parts on the devices of several processes, in NumPy."""
    if array.is_fully_addressable:
        return np.asarray(array)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(array, tiled=True)
