"""The random keys of a run: one each for noise, sampling and the model, from the operating system
unless a seed is asked for.
"""

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.random import key_of

_NAMES = ("noise", "sampling", "model")


class Keys(NamedTuple):
    """Three JAX keys that share nothing, four words for noise on a grid, and bytes for
    fingerprints; step i of each use has `fold_in(key, i)`, or `fold_words(words, i)`.

    Whoever knows `noise` or `words` can take the noise off every release: keys are as secret as the
    data, and gone when the run is done. `private` is False for those of a seed, which others can
    guess.
    """

    noise: Any
    sampling: Any
    model: Any
    words: Any
    secret: bytes
    private: bool

    def fingerprint(self, data):
        """A keyed hash (HMAC-SHA256) of arrays, their shapes and types:
        it tells nobody else anything about them.
        """
        digest = hmac.new(self.secret, digestmod=hashlib.sha256)
        for path, leaf in jax.tree.leaves_with_path(data):
            if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
                leaf = jax.random.key_data(leaf)
            leaf = np.asarray(leaf)
            digest.update(repr((jax.tree_util.keystr(path), leaf.shape, leaf.dtype.name)).encode())
            digest.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def fresh_keys(seed=None):
    """Keys from 64 bits of the operating system's entropy each;
    from `seed` if one is given, which is not private.

    >>> fresh_keys().private, fresh_keys(seed=0).private
    (True, False)
    """
    if seed is None:
        return _keys([os.urandom(8) for _ in _NAMES], os.urandom(16), os.urandom(32), True)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed = {seed!r} is outside its range 0, 1, 2, ...")
    material = [
        hashlib.sha256(f"jaxpriv {name} {seed}".encode()).digest()
        for name in (*_NAMES, "words", "secret")
    ]
    *parts, words, secret = material
    return _keys([part[:8] for part in parts], words[:16], secret, False)


def _keys(parts, words, secret, private):
    noise, sampling, model = (key_of(np.frombuffer(part, "<u4")) for part in parts)
    four = jnp.asarray(np.frombuffer(words, "<u4"), jnp.uint32)
    return Keys(noise, sampling, model, four, secret, private)


def write_keys(path, keys):
    """Keep keys for a resumption, readable by their owner alone;
    on the disk before this returns.
    """
    parts = {
        name: np.asarray(jax.random.key_data(getattr(keys, name)), "<u4").tobytes().hex()
        for name in _NAMES
    }
    parts["words"] = np.asarray(keys.words, "<u4").tobytes().hex()
    content = json.dumps({**parts, "secret": keys.secret.hex(), "private": keys.private})
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_keys(path):
    """The keys that `write_keys` kept. Raises: ValueError where they are gone,
    as after a run that is done, or broken.
    """
    try:
        content = json.loads(Path(path).read_text())
        return _keys([bytes.fromhex(content[name]) for name in _NAMES],
                     bytes.fromhex(content["words"]), bytes.fromhex(content["secret"]),
                     content["private"])
    except FileNotFoundError:
        raise ValueError(f"{path} is gone: without its keys a run can't go on") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is broken ({error}): without its keys a run can't go on"
        ) from None
