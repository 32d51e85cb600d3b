"""The most that any mechanism allows, by brute force: linear programs of SciPy, over every
mechanism there is for a few canaries, and over the laws of the number of correct guesses for some
dozen.
"""

import itertools

import numpy as np
import scipy.sparse
from scipy.optimize import linprog


def over_mechanisms(epsilons, deltas, correct, guesses, canaries, choices):
    """The largest P(V >= correct) of all mechanisms whose outputs are guesses, `guesses` of them
    and else "no guess", with delta(epsilon) <= delta at each of these between every two data sets
    that differ in one canary.
    """
    data = list(itertools.product(range(choices), repeat=canaries))
    outputs = [told for told in itertools.product(range(-1, choices), repeat=canaries)
               if sum(value >= 0 for value in told) == guesses]
    count, size = len(data) * len(outputs), len(outputs)
    pairs = [(u, v) for u, one in enumerate(data) for v, other in enumerate(data)
             if sum(a != b for a, b in zip(one, other)) == 1]
    blocks, bounds, extra = [], [], len(pairs) * len(epsilons)
    place = itertools.count()
    for epsilon, delta in zip(epsilons, deltas):
        for u, v in pairs:
            at = count + size * next(place)
            index = np.arange(size)
            # the positive part of p - e^eps q for each output, and their sum
            blocks.append(_rows([(index, u * size + index, 1.0),
                                 (index, v * size + index, -np.exp(epsilon)),
                                 (index, at + index, -1.0)], size, count + extra * size))
            blocks.append(_rows([(0 * index, at + index, 1.0)], 1, count + extra * size))
            bounds += [np.zeros(size), [delta]]
    worth = np.zeros(count + extra * size)
    for u, told in itertools.product(range(len(data)), range(size)):
        right = sum(a == b for a, b in zip(data[u], outputs[told]))
        worth[u * size + told] = -(right >= correct) / len(data)
    sums = _rows([(np.repeat(np.arange(len(data)), size), np.arange(count), 1.0)], len(data),
                 count + extra * size)
    found = linprog(worth, scipy.sparse.vstack(blocks, "csr"), np.concatenate(bounds), sums,
                    np.ones(len(data)), method="highs")
    return -found.fun


def over_laws(epsilons, deltas, correct, guesses, canaries, choices=2):
    """The same over the laws of V that these (epsilon, delta) allow."""
    n, s = guesses, np.arange(guesses)
    size = n + 1 + n * len(epsilons)
    blocks, bounds = [], []
    for place, (epsilon, delta) in enumerate(zip(epsilons, deltas)):
        at = n + 1 + n * place
        ratio = np.exp(epsilon) / (choices - 1)
        blocks.append(_rows([(s, s + 1, (s + 1.0) / canaries),
                             (s, s, -ratio * (n - s) / canaries), (s, at + s, -1.0)], n, size))
        blocks.append(_rows([(0 * s, at + s, 1.0)], 1, size))
        bounds += [np.zeros(n), [delta]]
    worth = np.where((np.arange(size) >= correct) & (np.arange(size) <= n), -1.0, 0.0)
    total = np.where(np.arange(size) <= n, 1.0, 0.0)[None]
    found = linprog(worth, scipy.sparse.vstack(blocks, "csr"), np.concatenate(bounds), total,
                    np.ones(1), method="highs")
    return -found.fun


def _rows(entries, rows, columns):
    row, column, value = (np.concatenate(parts) for parts in zip(
        *(np.broadcast_arrays(*entry) for entry in entries)))
    return scipy.sparse.csr_matrix((value.astype(float), (row, column)), (rows, columns))
