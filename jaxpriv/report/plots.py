"""Plots of a certificate: the trade-off curves and the privacy profiles, worst case and relaxed in one picture."""

import jax
import numpy as np

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxpriv[plots]'") from None

_COLOURS = ("#c0392b", "#2c6fbb", "#2a9d5c")


def draw(mechanism, delta, path):
    """Write a PNG with f(alpha) (left) and delta(epsilon) (right) of every adversary of a `Mechanism`.

    Importing this module without matplotlib raises ModuleNotFoundError with the extra to install.
    """
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    with jax.enable_x64(True):
        rows = mechanism.adversaries()
        largest = max(float(rows[0][2].epsilon(delta * 1e-2)), 1e-3)
        alphas = np.concatenate([np.geomspace(1e-6, 0.02, 60), np.linspace(0.025, 1.0, 60)])
        epsilons = np.linspace(0.0, largest, 120)
        for (name, _, curve), colour in zip(rows, _COLOURS):
            left.plot(alphas, curve(alphas), label=name, color=colour)
            profile = np.asarray(curve.delta(epsilons))
            right.semilogy(epsilons, np.where(profile > 0, profile, np.nan), label=name, color=colour)
    left.plot([0, 1], [1, 0], color="0.7", linestyle=":", label="perfect privacy")
    left.set(xlabel="type I error α (false positive rate)", ylabel="type II error β", title="Trade-off curves")
    left.set(xlim=(0, 1), ylim=(0, 1))
    right.axhline(delta, color="0.7", linestyle=":", label=f"δ = {delta:g}")
    right.set(xlabel="ε", ylabel="δ(ε)", title="Privacy profiles", xlim=(0, largest), ylim=(delta * 1e-2, 1))
    for axes in (left, right):
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
