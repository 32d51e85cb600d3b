"""Scale-then-privatise: gradients are scaled entry by entry, then clipped and made noisy, then
scaled back, so that entries which hardly move have little noise.

The scale comes from past releases, so it is known to whoever sees these; the scaled gradients are
clipped to clip_norm as any others: a step costs what it costs without a scale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxpriv._checks import BELOW_ONE, POSITIVE, check_floating, check_number
from jaxpriv.training.clipping import ClippedSum, clipped_sum


class ScaleState(NamedTuple):
    """second: moving average of squared releases, not yet divided by 1 - b2^step."""

    second: Any
    step: jax.Array


@dataclass(frozen=True)
class ScaleThenPrivatise:
    """The scale 1/(nu^1/2 + eps) of gradients, nu the second moments of past releases.

    Of a step: `scale(state)`; `scaled_clipped_sum(..., scale=scale)`; `private_mean` of its total;
    `unscaled(release, scale)` for the optimiser (Adam with the same b2, say) and `update`. Where nu
    is small the scale is large, and the noise on the unscaled release, of standard deviation
    noise_multiplier clip_norm/(expected_batch_size scale), small.

    Attributes:
        b2: in [0, 1). eps: in (0, inf), of the size of a small entry of a gradient: entries with
            less noise and signal than it are not told apart.

    Raises: ValueError for values outside their range.
    Source: Ganesh, McMahan, Thakurta 2025, scale-then-privatize.

        >>> import jax.numpy as jnp
        >>> method = ScaleThenPrivatise(b2=0.9, eps=0.1)
        >>> state = method.init(jnp.zeros(2))
        >>> for _ in range(50):
        ...     state = method.update(jnp.array([0.9, 0.0]), state)
        >>> print(method.scale(state).round(2))
        [ 1. 10.]
    """

    b2: float = 0.999
    eps: float = 1e-3

    def __post_init__(self):
        check_number("b2", self.b2, BELOW_ONE)
        check_number("eps", self.eps, POSITIVE)

    def init(self, parameters: Any) -> ScaleState:
        """The state before the first step, whose scale is 1/eps everywhere."""
        check_floating("parameters", parameters)
        zeros = jax.tree.map(
            lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.promote_types(leaf.dtype, jnp.float32)),
            parameters,
        )
        return ScaleState(zeros, jnp.zeros((), jnp.int32))

    def scale(self, state: ScaleState) -> Any:
        """A pytree like the parameters, of entries in (0, 1/eps]."""
        share = jnp.where(state.step > 0, 1 - self.b2**state.step, 1.0)
        return jax.tree.map(lambda v: 1 / (jnp.sqrt(v / share) + self.eps), state.second)

    def update(self, release: Any, state: ScaleState) -> ScaleState:
        """The state after a release, which is already unscaled."""
        second = jax.tree.map(
            lambda v, g: self.b2 * v + (1 - self.b2) * jnp.square(g.astype(v.dtype)),
            state.second, release,
        )
        return ScaleState(second, state.step + 1)


def scaled_clipped_sum(
    loss: Callable[..., Any], parameters: Any, examples: Any, key: jax.Array | None = None, *,
    scale: Any, **settings: Any,
) -> ClippedSum:
    """`clipped_sum` of gradients whose entries are multiplied by `scale` before they are clipped.

    It is the clipped sum of u -> loss(parameters + scale u) at u = 0, whose gradient is scale times
    the loss's: nothing of the clipping is done anew.

    Args:
        loss, parameters, examples, key: as `clipped_sum`.
        scale: a pytree like the parameters, of entries in (0, inf): no function of the records but
            through releases. settings: of `clipped_sum`; its clip_norm is of scaled gradients.

    Returns: a `ClippedSum` of scaled gradients; `unscaled` of a release is one of gradients.
    Guarantee: as `clipped_sum`, for any scale. Raises: ValueError as `clipped_sum`, and for a scale
        of another structure, or other shapes.

        >>> import jax.numpy as jnp
        >>> def loss(w, x, key):
        ...     return w @ x
        >>> found = scaled_clipped_sum(loss, jnp.zeros(2), jnp.array([[3.0, 0.4]]),
        ...                            scale=jnp.array([1.0, 10.0]), clip_norm=1.0)
        >>> print(found.total.round(1), found.norms)
        [0.6 0.8] [5.]
    """
    moved, offset = of_scaled(loss, parameters, scale)
    return clipped_sum(moved, offset, examples, key, **settings)


def of_scaled(loss, parameters, scale):
    """(u -> loss(parameters + scale u), where u is 0): what is asked of its gradients is asked of
    scaled ones. Raises: ValueError as `scaled_clipped_sum`.
    """
    check_floating("scale", scale)
    if _shapes(scale) != _shapes(parameters):
        raise ValueError("scale is no pytree like the parameters; accepted: one number per entry")

    def moved(offset, example, key):
        return loss(
            jax.tree.map(lambda p, s, u: (p + s * u).astype(p.dtype), parameters, scale, offset),
            example, key,
        )

    return moved, jax.tree.map(jnp.zeros_like, scale)


def _shapes(tree):
    """With where they are."""
    return [(path, jnp.shape(leaf)) for path, leaf in jax.tree.leaves_with_path(tree)]


def unscaled(release: Any, scale: Any) -> Any:
    """The release over the scale: a noisy mean of gradients that were clipped when scaled."""
    return jax.tree.map(jnp.divide, release, scale)
