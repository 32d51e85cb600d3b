"""Two hundred random settings of DP-SGD:
brackets of two accountants that share no code must overlap.
"""

import numpy as np
import pytest

from jaxpriv import worst_case

pld = pytest.importorskip(
    "dp_accounting.pld.privacy_loss_distribution", reason="pip install --no-deps dp-accounting"
)


def settings(count=200, seed=20261121):
    """(noise multiplier, rate, steps, delta), every one with an epsilon that means something."""
    random = np.random.default_rng(seed)
    rows = []
    while len(rows) < count:
        noise = np.exp(random.uniform(np.log(0.4), np.log(10)))
        rate = np.exp(random.uniform(np.log(1e-4), 0.0))
        steps = int(np.exp(random.uniform(0, np.log(1e4))))
        delta = np.exp(random.uniform(np.log(1e-6), np.log(0.1)))
        if rate * rate * steps / noise**2 < 30:  # about epsilon^2
            rows.append((noise, rate, steps, delta))
    return rows


@pytest.mark.slow
@pytest.mark.long
def test_overlap():
    bad = []
    for row in settings():
        noise, rate, steps, delta = row
        curve = worst_case.subsampled_gaussian(noise, rate, np.asarray(steps, float)).symmetric()
        epsilon = float(curve.epsilon(delta))
        low, high = map(float, curve.delta_bounds(epsilon))
        theirs = [
            pld.from_gaussian_mechanism(noise, sampling_prob=rate, pessimistic_estimate=pessimistic)
            .self_compose(steps)
            .get_delta_for_epsilon(epsilon)
            for pessimistic in (False, True)
        ]
        # their optimistic answer may exceed their pessimistic one by rounding, as ours may not
        if not (low <= theirs[1] * (1 + 1e-9) and theirs[0] <= high * (1 + 1e-9) and low <= high):
            bad.append((*row, epsilon, low, high, *theirs))
    assert not bad
