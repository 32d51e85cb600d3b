"""Correlated noise by dense linear algebra and enumeration, sharing no formula with the package."""

import itertools
import math

import numpy as np


def toeplitz(column):
    """The lower-triangular matrix with this first column."""
    steps = len(column)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)]
                     for i in range(steps)])


def strategies(random):
    """(name, first column of C by definition: steps -> array, the strategy)."""
    from jaxpriv import correlated

    taps = np.concatenate([[5.0], random.normal(size=11)])
    decay, scale = np.array([0.9, 0.5, 0.99]), np.array([0.2, 0.1, 0.15])

    def buffered(steps):
        return [1.0] + [sum(s * d**t for d, s in zip(decay, scale)) for t in range(steps - 1)]

    def central(j):
        return math.comb(2 * j, j) / 4**j

    def banded(values, steps):
        return [values[j] if j < len(values) else 0.0 for j in range(steps)]

    def inverted(values, steps):
        return np.linalg.inv(toeplitz(banded(values, steps)))[:, 0]

    root = [1.0, -0.5, -0.125, -0.0625]  # of 1 - x: 1 - x/2 - x^2/8 - x^3/16
    return [
        ("identity", lambda steps: banded([1.0], steps), correlated.Identity()),
        ("square root", lambda steps: banded([central(j) for j in range(7)], steps),
         correlated.banded_square_root(7)),
        ("banded", lambda steps: banded(taps, steps), correlated.banded_toeplitz(taps)),
        ("short", lambda steps: banded([1.0, 0.7, -0.4], steps),
         correlated.banded_toeplitz([1.0, 0.7, -0.4])),
        ("buffered", buffered, correlated.buffered_toeplitz(decay, scale)),
        ("inverse square root", lambda steps: inverted(root, steps),
         correlated.banded_inverse_square_root(4)),
        ("banded inverse", lambda steps: inverted([2.0, 0.8, -0.6], steps),
         correlated.banded_inverse([2.0, 0.8, -0.6])),
    ]


def patterns(steps, separation, most):
    """All patterns of at most `most` steps that are at least so far apart."""
    for count in range(1, most + 1):
        for pattern in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in zip(pattern, pattern[1:])):
                yield pattern


def reach(matrix, separation, most):
    """max over patterns of sqrt(sum |X_ij|), one after the other."""
    product = abs(matrix.T @ matrix)
    return max(math.sqrt(product[np.ix_(pattern, pattern)].sum())
               for pattern in patterns(len(matrix), separation, most))


def iterates(rates, momentum, steps):
    """A, whose column s is what SGD does with a gradient of 1 in step s."""
    matrix = np.zeros((steps, steps))
    for start in range(steps):
        moving = theta = 0.0
        for step in range(steps):
            moving = momentum * moving + (step == start)
            theta += (1.0 if rates is None else rates[step]) * moving
            matrix[step, start] = theta
    return matrix


def least_error(gram, bands):
    """What no banded matrix with columns of length 1 gets below: (sum of the rows' squares)^(1/2)
    by Lagrange's dual at this C^T C.

    For L = diag(l) + anything outside the band, L >= 0, and X with unit diagonal: tr(M X^-1) =
    tr(M X^-1) + tr(L X) - sum l >= 2 tr (M^1/2 L M^1/2)^1/2 - sum l. At the best multiple of L this
    is (tr (M^1/2 L M^1/2)^1/2)^2/sum l. At the optimum L = X^-1 M X^-1.
    """
    steps = len(gram)
    work = np.tri(steps).T @ np.tri(steps)
    inverse = np.linalg.inv(gram)
    weights = inverse @ work @ inverse
    i, j = np.indices((steps, steps))
    weights = np.where((abs(i - j) < bands) & (i != j), 0.0, (weights + weights.T) / 2)
    assert np.linalg.eigvalsh(weights)[0] >= 0
    values, vectors = np.linalg.eigh(work)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inner = np.linalg.eigvalsh(root @ weights @ root)
    return np.sqrt(np.maximum(inner, 0.0)).sum() / math.sqrt(np.trace(weights))
