"""Clipping norms that follow a quantile of the gradients' lengths, by a private count of those that
are short enough; the count and the gradients share the noise of one step.

Let a step release the sum of clipped gradients with noise z_g clip_norm, and the centred count
sum_i (b_i - 1/2), b_i = 1 where a gradient is no longer than clip_norm and 0 else, with noise
sigma. A record that takes part moves the sum by clip_norm at most and the count by 1/2, whatever
b_i is; one that doesn't moves neither. Divided by their noises both together are one vector with
noise N(0, I), which one record moves by a length of

    (z_g^-2 + (1/2)^2 sigma^-2)^(1/2)    at most: 1/z, for z_g = (z^-2 - (2 sigma)^-2)^(-1/2),

one step of the (sub-sampled) Gaussian mechanism at noise multiplier z, for both are of the same
sample. The clipping norm follows from earlier releases alone, and the noise is in units of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import random
from jaxpriv._checks import OPEN_UNIT, POSITIVE, SCALE, check_key, check_number, check_whole
from jaxpriv.training.grid import grid_bits


def split_noise(noise_multiplier: float, count_std: float) -> float:
    """The gradients' noise multiplier where the count's noise has standard deviation `count_std`.

    Args:
        noise_multiplier: z that is accounted, in [1e-15, 1e15].
        count_std: in (z/2, 1e15]; a twentieth of the batch is usual, and makes z_g hardly larger.

    Returns: a float z_g > z, rounded up.
    Guarantee: a sum of gradients with z_g and the centred count with count_std are together one
        step at z: `worst_case.gaussian_releases([1, 1/2], [z_g, count_std])` has mu <= 1/z.
    Raises: ValueError for values outside their range.
    Source: Andrew et al. 2021, Theorem 1; the proof is this module's beginning.

        >>> print(f"{split_noise(1.0, 5.0):.5f} {split_noise(1.0, 0.6):.3f}")
        1.00504 1.809
    """
    check_number("noise_multiplier", noise_multiplier, SCALE)
    check_number("count_std", count_std, SCALE)
    noise, twice = float(noise_multiplier), 2 * float(count_std)
    if not noise < twice:
        raise ValueError(f"count_std = {count_std:g} is outside its range "
                         f"(noise_multiplier/2 = {noise / 2:g}, 1e+15]")
    # (z^-2 - (2 sigma)^-2)^(-1/2); the difference of squares in factors, where it is small
    return noise * (twice / math.sqrt(twice - noise)) / math.sqrt(twice + noise) * (1 + 4e-15)


@dataclass(frozen=True)
class AdaptiveClipping:
    """A clipping norm that moves to a quantile of the gradients' lengths.

    Each step: clip_norm <- clip_norm e^(-learning_rate (share - quantile)), where `share` is the
    noisy share of gradients that are no longer than clip_norm.

    Attributes:
        count_std: of the count's noise, in [1e-15, 1e15]; of a step with noise multiplier z
            gradients have `split_noise(z, count_std)`.
        expected_batch_size: in (0, inf). quantile: in (0, 1). learning_rate: in (0, inf).

    Raises: ValueError for values outside their range. Source: Andrew et al. 2021, Algorithm 1.

        >>> import jax, jax.numpy as jnp
        >>> clipping = AdaptiveClipping(count_std=5.0, expected_batch_size=100, learning_rate=1.0)
        >>> norms, clip_norm = jnp.linspace(0.0, 4.0, 100), jnp.array(0.1)
        >>> for key in jax.random.split(jax.random.key(0), 20):
        ...     clip_norm, share = clipping.update(key, norms, clip_norm)
        >>> bool(abs(clip_norm - 2.0) < 0.4)
        True
    """

    count_std: float
    expected_batch_size: float
    quantile: float = 0.5
    learning_rate: float = 0.2

    def __post_init__(self):
        for name, domain in (("count_std", SCALE), ("expected_batch_size", POSITIVE),
                             ("quantile", OPEN_UNIT), ("learning_rate", POSITIVE)):
            check_number(name, getattr(self, name), domain)

    def count(
        self, norms: jax.Array, clip_norm: Any, mask: jax.Array | None = None
    ) -> jax.Array:
        """The centred count of short gradients, sum_i (b_i - 1/2): not yet private.

        Args:
            norms: `Float[Array, "batch"]`, from `clipped_sum`; inf counts as long.
            clip_norm: in [1e-15, 1e15]. mask: `Bool[Array, "batch"]`, False for padding.

        Returns: `Float[Array, ""]`; of several devices they add up. Guarantee: one record more or
            less moves it by 1/2.

            >>> import jax.numpy as jnp
            >>> print(AdaptiveClipping(1.0, 3).count(jnp.array([1.0, 2.0, jnp.inf]), 2.0))
            0.5
        """
        mask = jnp.ones(jnp.shape(norms), bool) if mask is None else mask
        return jnp.sum(jnp.where(mask, jnp.where(norms <= clip_norm, 0.5, -0.5), 0.0))

    def moved(
        self, key: jax.Array, count: jax.Array, clip_norm: Any
    ) -> tuple[jax.Array, jax.Array]:
        """(the next clipping norm, the noisy share), from the centred count: a release.

        Args:
            key: a JAX key, used once and for nothing else. count: from `count`. clip_norm: of it.

        Returns: two `Float[Array, ""]`. The share is 1/2 + (count + noise)/expected_batch_size, for
            the number of records in a sample is not known; it may lie outside [0, 1].
        """
        check_key("key", key)
        noise = self.count_std * random.normal(key, (), jnp.result_type(count))
        return self._after(count + noise, clip_norm)

    def moved_on_grid(
        self, words: jax.Array, count: jax.Array, clip_norm: Any, rows: int
    ) -> tuple[jax.Array, jax.Array]:
        """`moved` by whole numbers alone, as `private_mean_on_grid`.

        The noise is floor(2^b N), b = `count_bits(rows)`, and a record moves the count by
        m = floor(2^b/(2 count_std)): by 1/2 at most, where the noise has `count_std`.

        Args:
            words: `UInt32[Array, "4"]`, a key as of `jaxpriv.random.rounded_normal`, used once.
            count: from `count`. clip_norm: of it. rows: of the physical batch, on all devices.

        Returns: as `moved`. Raises: ValueError for other keys, and as `count_bits`.

            >>> import jax.numpy as jnp
            >>> _, share = AdaptiveClipping(5.0, 100.0).moved_on_grid(
            ...     jnp.zeros(4, jnp.uint32), jnp.float32(10.0), 1.0, rows=150)
            >>> print(f"{share:.3f}")  # 0.6, with noise of 0.05
            0.563
        """
        bits = self.count_bits(rows)
        each = math.floor(2**bits / (2 * self.count_std))
        twice = jnp.round(2 * count).astype(jnp.int32)
        noisy = each * twice + random.rounded_normal(words, (), bits)
        # the middle of what floor takes, in records
        count = (noisy.astype(count.dtype) + 0.5) * (self.count_std * 2.0**-bits)
        return self._after(count, clip_norm)

    def count_bits(self, rows: int) -> int:
        """The finest grid on which the count of so many rows and its noise fit into 32 bits.
        Raises: ValueError as `grid_bits`.
        """
        check_whole("rows", rows, most=2**22)  # halves of so many add up exactly in float32
        return grid_bits(2 * self.count_std, rows, 1)

    def _after(self, count, clip_norm):
        """(the next clipping norm, the share), from a noisy centred count."""
        share = 0.5 + count / self.expected_batch_size
        after = clip_norm * jnp.exp(-self.learning_rate * (share - self.quantile))
        return jnp.clip(after, SCALE.low, SCALE.high), share

    def update(
        self, key: jax.Array, norms: jax.Array, clip_norm: Any, mask: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """(the next clipping norm, the noisy share): `moved` by the `count` of one device."""
        return self.moved(key, self.count(norms, clip_norm, mask), clip_norm)


def split_plan(noise_multipliers: Sequence[float], count_std: float) -> np.ndarray:
    """`split_noise` of every step of a plan: what `private_mean` is given in the place of
    `plan.noise_multipliers`, which stay what is accounted.

        >>> print(split_plan((1.0, 1.0), 5.0).round(4))
        [1.005 1.005]
    """
    known = {noise: split_noise(noise, count_std) for noise in set(noise_multipliers)}
    return np.array([known[noise] for noise in noise_multipliers])
