"""DP-SGD as the certificate describes it: steps and rate from data set, batch and epochs; numbers;
calibration; stages.
"""

import math

import numpy as np
import pytest

from jaxpriv import relaxed, worst_case
from jaxpriv.report import DpSgd, certify
from jaxpriv.training.planning import steps_of

MECHANISM = DpSgd(dataset_size=10_000, batch_size=100, epochs=5, noise_multiplier=1.0, dim=3)


@pytest.mark.parametrize(
    ("dataset_size", "batch_size", "epochs", "steps"),
    [(1000, 10, 1, 100), (1000, 10, 1.1, 110), (1000, 7, 1, 143), (1000, 1000, 0.3, 1),
     (3, 0.1, 0.1, 3), (60000, 256, 20, 4688)],
)
def test_steps(dataset_size, batch_size, epochs, steps):
    """Rounded up, of the decimal numbers as written: in binary 1.1 epochs of 100 batches are a
    little more than 110.
    """
    mechanism = DpSgd(dataset_size, batch_size, epochs, 1.0)
    assert mechanism.steps == steps == steps_of(dataset_size, batch_size, epochs)
    assert mechanism.sampling_rate == batch_size / dataset_size


@pytest.mark.slow
@pytest.mark.long
def test_certificate():
    """The numbers are those of the curves; adversaries, adjacency and sampling are said."""
    certificate = certify(MECHANISM, 1e-6)
    worst, weak = certificate["adversaries"]
    curves = (
        worst_case.subsampled_gaussian(1.0, 0.01, 500.0),
        relaxed.subsampled_gaussian(1.0, 0.01, 500.0, 3.0),
    )
    for row, curve in zip((worst, weak), curves):
        low, high = curve.symmetric().epsilon_bounds(1e-6)
        np.testing.assert_allclose((row["epsilon_lower"], row["epsilon"]), (low, high), rtol=1e-12)
        assert row["epsilon_lower"] <= row["epsilon"]
        assert row["advantage"] == pytest.approx(
            float(curve.symmetric().delta_bounds(0.0)[1]), rel=1e-12
        )
        tpr = np.array(list(row["tpr_at_fpr"].values()))
        power = curve.symmetric().power(np.array([1e-3, 1e-1]))
        # upper bounds, on the lattice that wide
        assert np.all((tpr >= power * (1 - 1e-9)) & (tpr <= power * (1 + 2e-5)))
    assert weak["epsilon"] < worst["epsilon"]
    low, high = curves[0].symmetric().gdp_mu_bounds(slack=1e-6)
    assert low <= worst["mu_at_slack"] <= high * (1 + 1e-12)
    # without a slack it is sqrt(500)
    assert weak["mu_at_slack"] < worst["mu_at_slack"] < 0.5
    assert (worst["adversary"], weak["adversary"]) == ("worst case", "relaxed, dim 3")
    assert certificate["mechanism"] == {
        "dataset_size": 10_000, "batch_size": 100, "epochs": 5, "noise_multiplier": 1.0, "dim": 3,
        "sampling_rate": 0.01, "steps": 500,
    }
    assert "add/remove one record" in certificate["adjacency"]
    assert "Poisson" in certificate["sampling"]
    assert "probability 0.01" in certificate["sampling"]
    assert "500 steps" in certificate["description"]
    assert "does not add releases up" in weak["assumption"]


@pytest.mark.slow
@pytest.mark.long
def test_calibrated():
    """The upper bound holds at the noise found and fails a little below it."""
    mechanism = DpSgd.calibrated(2.0, 1e-5, dataset_size=10_000, batch_size=100, epochs=5)
    noise = mechanism.noise_multiplier
    delta = [
        worst_case.subsampled_gaussian(s, 0.01, 500.0).symmetric().delta_bounds(2.0)
        for s in (noise, noise * (1 - 1e-7))
    ]
    assert delta[0][1] <= 1e-5 < delta[1][0]


@pytest.mark.parametrize(("epsilon", "words"), [(math.nan, "epsilon"), (-1.0, "epsilon")])
def test_targets_out_of_reach(epsilon, words):
    with pytest.raises(ValueError, match=words):
        DpSgd.calibrated(epsilon, 1e-5, dataset_size=100, batch_size=10, epochs=1)


def test_noise_is_never_less_than_drawn_numbers_cover():
    """At 0.0625 the record moves a release by 16 standard deviations,
    and no drawn number lies beyond 12.
    """
    assert (
        0.1
        < DpSgd.calibrated(1e4, 1e-5, dataset_size=100, batch_size=10, epochs=1).noise_multiplier
        <= 0.25
    )


@pytest.mark.parametrize("epochs", [0.01, 0.02, 0.05, 1, 20])
def test_stages_end_at_the_last_step(epochs):
    """A dozen at most, each once, whole steps; a single step alone only if it is all there is."""
    mechanism = DpSgd(10_000, 100, epochs, 1.0)
    counts = list(mechanism.stages()[0])
    assert counts == sorted(set(counts))
    assert counts[-1] == mechanism.steps
    assert len(counts) <= 12
    assert counts[0] >= min(2, mechanism.steps)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dataset_size": 0}, "dataset_size = 0"),
        ({"dataset_size": 10.5}, "dataset_size = 10.5"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"batch_size": 10_001}, "batch_size = 10001"),
        ({"epochs": -1}, "epochs = -1"),
        ({"epochs": math.nan}, "epochs = nan"),
        ({"noise_multiplier": 0}, "noise_multiplier = 0"),
        ({"noise_multiplier": math.inf}, "noise_multiplier = inf"),
        ({"dim": 0}, "dim = 0"),
        ({"dim": 1.5}, "dim = 1.5"),
        ({"dim": math.nan}, "dim = nan"),
        ({"dim": math.inf}, "dim = inf"),
    ],
)
def test_bad_settings(change, words):
    good = {"dataset_size": 10_000, "batch_size": 100, "epochs": 5, "noise_multiplier": 1.0}
    with pytest.raises(ValueError, match=words):
        DpSgd(**good | change)
