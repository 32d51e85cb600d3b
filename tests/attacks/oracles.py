"""GLiR and the covariance score by NumPy and SciPy alone,
from the formulas as docs/references.md corrects them.
"""

import numpy as np
import scipy.stats


def glir(release, queries, mean, covariance, n, noise_std=0.0):
    """Minus log p by `scipy.stats.ncx2.logcdf`, one query after the other."""
    return glir_of(release, queries, mean, precision(covariance, n, noise_std))


def precision(covariance, n, noise_std=0.0):
    """Of the release."""
    return np.linalg.inv(covariance / n + noise_std**2 * np.eye(len(covariance)))


def glir_of(release, queries, mean, inverse):
    """`glir` with the inverse at hand."""
    scores = []
    for g in queries:
        distance, nc = (release - g) @ inverse @ (release - g), (mean - g) @ inverse @ (mean - g)
        scores.append(-scipy.stats.ncx2.logcdf(distance, len(mean), nc))
    return np.array(scores)


def covariance(release, queries, mean, matrix, n, noise_std=0.0):
    """Algorithm 4's score, the release noise in the covariance."""
    inverse = np.linalg.inv(matrix + n * noise_std**2 * np.eye(len(mean)))
    away = queries - mean
    return away @ inverse @ (release - mean) - np.einsum("ij,jk,ik->i", away, inverse, away) / (
        2 * n
    )
