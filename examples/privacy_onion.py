"""The privacy onion: when the records that leak most are removed, others take their place.

    python examples/privacy_onion.py

Scikit-learn's diabetes records, of which somebody publishes the mean. A record's leakage score is
its squared Mahalanobis distance from the others over their number (Azize and Basu 2025, section 3).
Layer by layer the tenth with the highest scores is removed, as an owner might do who wants to
protect them. The law of those that stay is narrower, so they stick out more than before.
"""

import jax
import numpy as np
from sklearn.datasets import load_diabetes

from jaxpriv import target

LAYERS = 5


def leakage(records):
    """m* of every record in the mean of all of them."""
    covariance = np.cov(records.T, bias=True)
    return np.asarray(target.leakage_score(records, records.mean(0), covariance, len(records)))


def main():
    jax.config.update("jax_enable_x64", True)
    records = load_diabetes().data
    layers = [np.arange(len(records))]
    for _ in range(LAYERS):
        rows = layers[-1]
        layers.append(rows[np.argsort(leakage(records[rows]))[: int(0.9 * len(rows))]])
    print("layers off  records  those never removed: mean score  mean advantage")
    for off, rows in enumerate(layers):
        scores = leakage(records[rows])[np.isin(rows, layers[-1])]
        advantage = target.empirical_mean(scores).advantage()
        print(f"{off:10d}  {len(rows):7d}  {scores.mean():32.4f}  {float(advantage.mean()):14.4f}")


if __name__ == "__main__":
    main()
