"""Strategies: lower-triangular matrices C, of which the noise of a training is C^-1 g.

A training that releases noisy gradients x_t + z_t, t < T, with z = C^-1 g and g independent normal
noise, releases C x + g, up to what anybody can compute from it. So the privacy is that of Gaussian
noise at sensitivity max |C(x - x')|, and the error of what is computed from all gradients, A x, is
that of A C^-1 g.

Strategies are pytrees of arrays: NumPy's are computed by NumPy in float64, JAX's are traced and
differentiated. `column(steps)` and `inverse_column(steps)` are the first columns of C and C^-1,
which say all of Toeplitz matrices; `recurrence()` multiplies by C^-1 as the steps come, and
is what streams the noise.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT, Domain, as_parameter, check_number, check_whole, is_traced
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer, Numbers
from jaxpriv.correlated import series

REAL = Domain(-np.inf, np.inf, "(-inf, inf)", open_low=True, open_high=True)
_ULP = 2.0**-52
_STEPS = 10**7  # all columns of so many fit into memory
_POWER = 8  # ulp of a power; the C library's are within 1, NumPy's vectorised ones within 4


class Recurrence(NamedTuple):
    """noise_t = read . state + direct g_t, and state' = decay state + write g_t, from zeros.

    decay: `Float[Array, "n n"]`, read, write: `Float[Array, "n"]`, direct: `Float[Array, ""]`.
    """

    decay: Any
    read: Any
    write: Any
    direct: Any


@pytree
class Identity:
    """C = I: independent noise in every step, as in DP-SGD.

    >>> Identity().column(3)
    array([1., 0., 0.])
    """

    def column(self, steps: int) -> Answer:
        """The first column of C: `Float[Array, "steps"]`."""
        return np.eye(1, steps)[0]

    def inverse_column(self, steps: int) -> Answer:
        """The first column of C^-1: `Float[Array, "steps"]`."""
        return np.eye(1, steps)[0]

    def column_doubt(self, steps: int) -> Answer:
        """What `column` may be off by, at most: `Float[Array, "steps"]`."""
        return np.zeros(steps)

    def bands(self) -> int | None:
        """The number of diagonals of C that are not zero; None where all may be."""
        return 1

    def recurrence(self) -> Recurrence:
        """C^-1 as it is multiplied with, step by step: a `Recurrence`."""
        return Recurrence(np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.ones(()))


@pytree
class BandedToeplitz:
    """C is Toeplitz with these coefficients on and below its diagonal, and zero elsewhere.

    Made by `banded_toeplitz`. Source: Choquette-Choo et al. 2023 (arXiv:2306.08153); McKenna 2024
    (arXiv:2405.15913).
    """

    coefficients: Any

    def column(self, steps: int) -> Answer:
        """The first column of C: `Float[Array, "steps"]`."""
        return series.padded(self.coefficients, steps)

    def inverse_column(self, steps: int) -> Answer:
        """The first column of C^-1: `Float[Array, "steps"]`."""
        return series.inverse(self.coefficients, steps)

    def column_doubt(self, steps: int) -> Answer:
        """What `column` may be off by: nothing."""
        return np.zeros(steps)

    def bands(self) -> int | None:
        """The number of diagonals of C that are not zero."""
        return self.coefficients.shape[0]

    def recurrence(self) -> Recurrence:
        """x_t = (g_t - c_1 x_(t-1) - c_2 x_(t-2) - ...)/c_0: the state holds the last noises."""
        first, rest = self.coefficients[0], self.coefficients[1:]
        read = -rest / first
        order = rest.shape[0]
        below = np.eye(order, k=-1)[1:]
        decay = xp.concatenate([read[None], xp.like(below, read)]) if order else np.zeros((0, 0))
        return Recurrence(decay, read, np.eye(1, order)[0] / first, 1 / first)


@pytree
class BufferedToeplitz:
    """BLT: C is Toeplitz with c_0 = 1, c_t = sum_i scale_i decay_i^(t-1): a few buffers that decay.

    Made by `buffered_toeplitz`. Source: Dvijotham et al. 2024 (arXiv:2404.16706); McMahan, Xu,
    Zhang 2024 (arXiv:2408.08868).
    """

    decay: Any
    scale: Any

    def column(self, steps: int) -> Answer:
        """The first column of C: `Float[Array, "steps"]`."""
        powers = self.decay[:, None] ** np.arange(steps - 1, dtype=self.decay.dtype)
        rest = xp.sum(self.scale[:, None] * powers, 0)
        return xp.concatenate([xp.like(np.ones(1, rest.dtype), rest), rest])

    def inverse_column(self, steps: int) -> Answer:
        """The first column of C^-1: `Float[Array, "steps"]`."""
        return series.inverse(self.column(steps), steps)

    def column_doubt(self, steps: int) -> Answer:
        """What `column` may be off by: each power, and the sum of as many as there are buffers."""
        size = BufferedToeplitz(abs(self.decay), abs(self.scale)).column(steps)
        size[0] = 0.0  # which is 1 without any rounding
        return (_POWER + 2 + self.decay.shape[0]) * _ULP * size

    def bands(self) -> int | None:
        """All diagonals may be there: None."""
        return None

    def recurrence(self) -> Recurrence:
        """x_t = g_t - scale . buffers, and then buffers' = decay buffers + x_t."""
        ones = xp.ones_like(self.decay)
        decay = xp.diag(self.decay) - ones[:, None] * self.scale
        return Recurrence(decay, -self.scale, ones, np.ones(()))


@pytree
class BandedInverse:
    """C^-1 is Toeplitz with these coefficients on and below its diagonal, and zero elsewhere.

    Made by `banded_inverse`. Source: Kalinin et al. 2025 (arXiv:2505.12128), whose BISR has those
    of (1 - x)^(1/2).
    """

    coefficients: Any

    def column(self, steps: int) -> Answer:
        """The first column of C: `Float[Array, "steps"]`."""
        return series.inverse(self.coefficients, steps)

    def inverse_column(self, steps: int) -> Answer:
        """The first column of C^-1: `Float[Array, "steps"]`."""
        return series.padded(self.coefficients, steps)

    def bands(self) -> int | None:
        """All diagonals of C may be there, but for a single coefficient."""
        return 1 if self.coefficients.shape[0] == 1 else None

    def column_doubt(self, steps: int) -> Answer:
        """What `column` may be off by, from what it leaves of C^-1 C = I.

        Where coefficients * column = 1 + r the error e is (1/coefficients) * r, so that
        |e| <= (|column| + |e|) * |r| and max |e| <= max |column| |r|_1/(1 - |r|_1), up to every
        step. |r| is what is summed here, and what this sum may be off by itself.
        """
        column, own = self.column(steps), self.coefficients[:steps]
        residual, size = np.zeros(steps), np.zeros(steps)
        residual[0], size[0] = -1.0, 1.0
        for shift, value in enumerate(own):
            residual[shift:] += value * column[: steps - shift]
            size[shift:] += abs(value) * abs(column[: steps - shift])
        left = np.cumsum(abs(residual) + (own.shape[0] + 2) * _ULP * size) * (1 + steps * _ULP)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.maximum.accumulate(abs(column)) * left / (1 - left)
        return np.where(left < 1, found * (1 + 8 * _ULP), np.inf)

    def recurrence(self) -> Recurrence:
        """z_t = c_0 g_t + c_1 g_(t-1) + ...: the state holds the last g."""
        order = self.coefficients.shape[0] - 1
        return Recurrence(np.eye(order, k=-1), self.coefficients[1:], np.eye(1, order)[0],
                          self.coefficients[0])


@pytree
class Dense:
    """C is any lower-triangular matrix, `Float[Array, "steps steps"]`. Made by `dense`.

    Source: Denisov et al. 2022 (arXiv:2202.08312).
    """

    matrix: Any

    def bands(self) -> int | None:
        """The number of diagonals of C that are not zero, where the matrix is at hand."""
        if is_traced(self.matrix):
            return None
        rows, columns = np.nonzero(np.asarray(self.matrix))
        return int(max(rows - columns, default=0)) + 1


Strategy = Identity | BandedToeplitz | BufferedToeplitz | BandedInverse | Dense


_STRATEGIES = (Identity, BandedToeplitz, BufferedToeplitz, BandedInverse, Dense)


def banded_toeplitz(coefficients: Numbers) -> BandedToeplitz:
    """The strategy whose C is banded and Toeplitz.

    Args:
        coefficients: `Float[Array, "bands"]`, from the diagonal downwards; the first is not zero.

    Raises: ValueError for anything else. Multiples are the same strategy at another noise.

        >>> banded_toeplitz([1.0, 0.5]).inverse_column(4)
        array([ 1.   , -0.5  ,  0.25 , -0.125])
    """
    return BandedToeplitz(_series("coefficients", coefficients))


def banded_inverse(coefficients: Numbers) -> BandedInverse:
    """The strategy whose C^-1 is banded and Toeplitz: noise is a moving average of g.

    Args:
        coefficients: `Float[Array, "bands"]` of C^-1; the first is not zero.

    Raises: ValueError for anything else.

        >>> banded_inverse([1.0, -0.5]).column(4)
        array([1.   , 0.5  , 0.25 , 0.125])
    """
    return BandedInverse(_series("coefficients", coefficients))


def buffered_toeplitz(decay: Numbers, scale: Numbers) -> BufferedToeplitz:
    """The strategy BLT: c_0 = 1 and c_t = sum_i scale_i decay_i^(t-1).

    Args:
        decay: `Float[Array, "buffers"]` in [0, 1].
        scale: `Float[Array, "buffers"]`, any numbers; positive ones make C non-increasing where
            they sum to 1 at most, which makes its sensitivity exact.

    Raises: ValueError for values outside their range, and for different lengths.

        >>> buffered_toeplitz([0.5], [0.4]).column(4)
        array([1. , 0.4, 0.2, 0.1])
    """
    decay, scale = _vector("decay", decay, UNIT), _vector("scale", scale, REAL)
    if decay.shape != scale.shape:
        raise ValueError(
            f"decay has {decay.shape[0]} buffers, scale {scale.shape[0]}; they must agree"
        )
    return BufferedToeplitz(decay, scale)


def dense(matrix: Numbers) -> Dense:
    """The strategy of any lower-triangular matrix C.

    Args:
        matrix: `Float[Array, "steps steps"]`, zero above its diagonal and not on it.

    Raises: ValueError for anything else.

        >>> dense([[1.0, 0.0], [0.5, 1.0]]).bands()
        2
    """
    matrix = _real("matrix", matrix, REAL)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(f"matrix has shape {matrix.shape}; accepted: (steps, steps)")
    if not is_traced(matrix):
        values = np.asarray(matrix)
        if np.any(np.triu(values, 1)) or not np.all(np.diag(values)):
            raise ValueError("matrix is not lower-triangular with a diagonal without zeros")
    return Dense(matrix)


def banded_square_root(bands: int) -> BandedToeplitz:
    """BSR: C has the first coefficients of (1 - x)^(-1/2), with which all bands sum up best.

    Source: Kalinin, Lampert 2024 (arXiv:2405.13763); for bands = steps Fichtenberger, Henzinger,
    Upadhyay 2023 (arXiv:2202.11205), of the least maximal error of all Toeplitz matrices.

        >>> banded_square_root(3).coefficients
        array([1.   , 0.5  , 0.375])
    """
    check_whole("bands", bands, most=_STEPS)
    return BandedToeplitz(series.square_root(bands))


def banded_inverse_square_root(bands: int) -> BandedInverse:
    """BISR: C^-1 has the first coefficients of (1 - x)^(1/2).

    Source: Kalinin et al. 2025 (arXiv:2505.12128).

        >>> banded_inverse_square_root(3).coefficients
        array([ 1.   , -0.5  , -0.125])
    """
    check_whole("bands", bands, most=_STEPS)
    return BandedInverse(series.inverse_square_root(bands))


def buffered_square_root(buffers: int, steps: int) -> BufferedToeplitz:
    """A BLT near (1 - x)^(-1/2) over so many steps, to begin an optimisation with.

    Its coefficients are moments of the arcsine law, binom(2t, t)/4^t = E[y^t]. With y = sin^2 a,
    a uniform on (0, pi/2), the law is cut where 1 - y is 1, ..., 1/steps in equal ratios, and each
    piece is put at its mean: positive scales, so that C is non-increasing.

        >>> print(*buffered_square_root(3, 100).column(4).round(3))
        1.0 0.5 0.331 0.267
    """
    check_whole("buffers", buffers, most=100)
    check_whole("steps", steps, most=_STEPS)
    gaps = np.concatenate([float(steps + 1) ** (-np.arange(buffers) / buffers), [0.0]])
    angle = np.arccos(np.sqrt(gaps))
    mass = np.diff(angle) / (np.pi / 2)
    first_moment = np.diff(angle - np.sin(2 * angle) / 2) / np.pi
    return BufferedToeplitz(first_moment / mass, first_moment)


def check_strategy(strategy, steps):
    """Raise ValueError for what is no strategy, or none for so many steps."""
    check_whole("steps", steps, most=_STEPS)
    if not isinstance(strategy, _STRATEGIES):
        raise ValueError(f"strategy = {strategy!r}; accepted: those of jaxpriv.correlated")
    if isinstance(strategy, Dense) and strategy.matrix.shape[0] != steps:
        raise ValueError(f"the matrix is for {strategy.matrix.shape[0]} steps, not {steps}")


def _series(name, value):
    value = _vector(name, value, REAL)
    if not is_traced(value) and value[0] == 0:
        raise ValueError(f"{name} begins with 0; C would have no inverse")
    return value


def _vector(name, value, domain):
    value = _real(name, value, domain)
    if value.ndim != 1 or not value.shape[0]:
        raise ValueError(f"{name} has shape {value.shape}; accepted: a vector of at least one")
    return value


def _real(name, value, domain):
    if not is_traced(value):
        check_number(name, value, domain)
    return xp.asarray(as_parameter(name, value, domain))
