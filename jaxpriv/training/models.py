"""Small Flax models for the command line: linear, multi-layer perceptron, convolutional network."""

import math

import jax
from flax import nnx


class Linear(nnx.Module):
    """Logits by one linear map of the flattened record."""

    def __init__(self, shape, classes, width, rngs):
        del width
        self.out = nnx.Linear(math.prod(shape), classes, rngs=rngs)
        self._axes = len(shape)

    def __call__(self, x):
        return self.out(x.reshape(*x.shape[: x.ndim - self._axes], -1))


class Mlp(nnx.Module):
    """Two hidden layers of `width` with tanh, which training with noise likes better than relu
    (Papernot et al. 2021).
    """

    def __init__(self, shape, classes, width, rngs):
        self.first = nnx.Linear(math.prod(shape), width, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.out = nnx.Linear(width, classes, rngs=rngs)
        self._axes = len(shape)

    def __call__(self, x):
        x = x.reshape(*x.shape[: x.ndim - self._axes], -1)
        return self.out(jax.nn.tanh(self.second(jax.nn.tanh(self.first(x)))))


class Cnn(nnx.Module):
    """Two convolutions of `width` and 2 `width` channels with tanh and average pooling,
    then a linear map.
    """

    def __init__(self, shape, classes, width, rngs):
        if len(shape) != 3:
            raise ValueError(f"a cnn takes records of shape (height, width, channels), not {shape}")
        height, across, channels = shape
        self.first = nnx.Conv(channels, width, (3, 3), rngs=rngs)
        self.second = nnx.Conv(width, 2 * width, (3, 3), rngs=rngs)
        self.out = nnx.Linear(2 * width * (height // 4) * (across // 4), classes, rngs=rngs)

    def __call__(self, x):
        for layer in (self.first, self.second):
            x = nnx.avg_pool(jax.nn.tanh(layer(x)), (2, 2), (2, 2))
        return self.out(x.reshape(*x.shape[:-3], -1))


MODELS = {"linear": Linear, "mlp": Mlp, "cnn": Cnn}


def make_model(name, shape, classes, width, key):
    """A new model for records of this shape.

    Raises: ValueError for an unknown name, width < 1, or a shape that the model does not take.

        >>> import jax, jax.numpy as jnp
        >>> make_model("cnn", (8, 8, 1), 10, 4, jax.random.key(0))(jnp.zeros((8, 8, 1))).shape
        (10,)
    """
    if name not in MODELS:
        raise ValueError(f"model = {name!r}; accepted: {', '.join(MODELS)}")
    if width < 1:
        raise ValueError(f"width = {width} is outside its range 1, 2, 3, ...")
    return MODELS[name](tuple(shape), classes, width, nnx.Rngs(key))
