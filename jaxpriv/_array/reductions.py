"""NumPy's reductions without its detours, which take longer than short arrays do."""

import functools
import math

import numpy as np

_MANY_ROWS, _FEW_EACH = (32, 4096), 16  # numbers: so many rows of so few are summed by a product
_ONES = np.ones(_MANY_ROWS[1])


def _by_ufunc(reduce):
    def reduction(values, axis=None, **options):
        return reduce(values, axis, **options)

    return reduction


def _sum(values, axis=None, **options):
    """`numpy.sum`; over many rows of few numbers as a product, where a loop over each row costs
    more than adding it up.
    """
    plain = type(values) is np.ndarray and values.dtype == np.float64 and type(axis) is int
    if plain and not options and 0 <= axis < values.ndim - 1 and values.flags.c_contiguous:
        ahead, count, behind = values.shape[:axis], values.shape[axis], values.shape[axis + 1 :]
        least, most = _MANY_ROWS
        if least <= count <= most and math.prod(behind) <= _FEW_EACH:
            rows = values.reshape((math.prod(ahead), count, math.prod(behind)))
            return (_ONES[:count] @ rows).reshape(ahead + behind)
    return np.add.reduce(values, axis, **options)


REDUCTIONS = {
    name: functools.wraps(getattr(np, name))(reduce)
    for name, reduce in (
        ("sum", _sum), ("max", _by_ufunc(np.maximum.reduce)), ("min", _by_ufunc(np.minimum.reduce)),
        ("all", _by_ufunc(np.logical_and.reduce)), ("any", _by_ufunc(np.logical_or.reduce)))
}
