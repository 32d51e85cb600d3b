"""The worst pattern of participations for a matrix that is not Toeplitz.

max over patterns of sum_ij |X_ij|, X = C^T C, is a search for the heaviest subset, hard in general:
with separation 1 it contains that of the densest subgraph of k vertices. Algorithm 4 of
Choquette-Choo et al. 2023 (arXiv:2306.08153) is an upper bound, which is exact where no two steps
of a pattern meet in an X_ij. Two more, each of which is exact in more cases:

* X_ij = 0 for |i - j| >= 2b, for separation b: only neighbours in a pattern meet, and the best one
  that ends with step j follows from those that end b or more before. Signs do not matter: along a
  chain gradients can be turned, one after the other, so that every term is positive.
* The least Y >= |X| that falls with j - i >= b, and along the diagonals, is largest on the steps
  0, b, 2b, ..., as it is of Toeplitz matrices; exact where X falls by itself.
"""

import math

import numpy as np

_ULP = 2.0**-52


def bounds_of_dense(matrix, separation, count):
    """(lower, upper) of max |C u| over patterns of at most `count` steps, `separation` apart."""
    steps = matrix.shape[0]
    separation = min(separation, steps)
    product, size = matrix.T @ matrix, abs(matrix).T @ abs(matrix)
    doubt = (steps + 2) * _ULP * size  # of an inner product of so many terms
    above = abs(product) + doubt
    lowers, uppers = [_at_equal_distances(product - doubt, separation, count)], []
    if count == 1 or not np.any(np.triu(size, 2 * separation)):
        below = np.maximum(abs(product) - doubt, 0.0)
        lowers.append(_along_chains(below, separation, count))
        uppers.append(_along_chains(above, separation, count))
    else:
        rows = _heaviest(above, separation, count)
        uppers.append(_heaviest(rows[None], separation, count)[0])
        uppers.append(_summed(_falling(above, separation), np.arange(count) * separation))
    # of positive terms, added up one after the other
    more = 1 + (4 * steps + 16) * _ULP
    return math.sqrt(max(*lowers, 0.0) / more), math.sqrt(min(uppers) * more)


def _summed(weights, pattern):
    return math.fsum(weights[np.ix_(pattern, pattern)].ravel())


def _at_equal_distances(weights, separation, count):
    """The largest sum of a pattern of equal distances, which bounds that of all from below."""
    patterns = [np.arange(start, weights.shape[0], separation)[:count]
                for start in range(separation)]
    return _summed(weights, max(patterns, key=lambda pattern: weights[np.ix_(pattern, pattern)]
                                .sum()))


def _along_chains(weights, separation, count):
    """The largest sum over patterns of the diagonal and twice what neighbours meet in."""
    steps, own = weights.shape[0], np.diag(weights)
    found = own
    for _ in range(count - 1):
        before = np.zeros(steps)
        far = 2 * separation
        before[far:] = np.maximum.accumulate(found)[: max(steps - far, 0)]
        for gap in range(separation, min(far, steps)):
            met = found[:-gap] + 2 * np.diagonal(weights, gap)
            before[gap:] = np.maximum(before[gap:], met)
        found = own + before
    return float(np.max(found))


def _heaviest(rows, separation, count):
    """Of each row of weights >= 0 the largest sum over a pattern: Algorithm 3 (VecSens) there."""
    steps = rows.shape[1]
    best = np.zeros((rows.shape[0], steps + separation))
    if count * separation >= steps:  # there is room for no more anyhow
        for step in range(steps - 1, -1, -1):
            taken = rows[:, step] + best[:, step + separation]
            best[:, step] = np.maximum(best[:, step + 1], taken)
        return best[:, 0]
    for _ in range(count):
        taken = rows + best[:, separation:]
        best[:, :steps] = np.maximum.accumulate(taken[:, ::-1], 1)[:, ::-1]
    return best[:, 0]


def _falling(weights, separation):
    """The least function above these that falls with j - i, from the separation on, at each i, and
    with i at each j - i; of i <= j, mirrored.
    """
    steps = weights.shape[0]
    found = np.zeros_like(weights)
    beyond = np.triu(weights, separation)
    beyond = np.maximum.accumulate(beyond[:, ::-1], 1)[:, ::-1]
    for gap in (0, *range(separation, steps)):
        along = np.diagonal(weights if gap == 0 else beyond, gap)
        index = np.arange(steps - gap)
        found[index, index + gap] = np.maximum.accumulate(along[::-1])[::-1]
    return found + np.triu(found, 1).T
