"""Pictures of mathematics.md: `python docs/pictures/draw.py` writes them next to this file."""

from pathlib import Path

import matplotlib
import numpy as np

import jaxpriv

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"  # told apart by everyone (Okabe and Ito)
HERE = Path(__file__).parent


def contact():
    """The trade-off function and the line that touches it: one primitive."""
    curve, eps = jaxpriv.worst_case.gaussian(1.5), 0.7
    alpha = np.linspace(0.0, 1.0, 400)
    delta = curve.delta(eps)
    at = alpha[np.argmin(np.abs(curve.slope(alpha) - eps))]
    figure, axis = plt.subplots(figsize=(5.2, 4.2))
    axis.plot(alpha, curve(alpha), color=BLUE, label="f, the best test")
    line = 1 - delta - np.exp(eps) * alpha
    axis.plot(alpha[line >= 0], line[line >= 0], color=ORANGE, linestyle="--",
              label="slope $-e^{\\varepsilon}$")
    axis.plot(at, curve(at), "o", color=ORANGE)
    axis.annotate("contact", (at, curve(at)), (at + 0.07, curve(at) + 0.06), color=GREY)
    axis.annotate("$1-\\delta(\\varepsilon)$", (0.0, 1 - delta), (0.06, 1 - delta), color=GREY)
    axis.plot(alpha, 1 - alpha, color=GREY, linewidth=0.8, label="no information")
    axis.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1))
    axis.legend(frameon=False)
    save(figure, "contact")


def contour():
    """|integrand| of delta of 1000 steps of DP-SGD around its saddle, and the line through it."""
    noise, rate, steps, eps = 1.0, 0.01, 1000, 1.0
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    weight = weight / weight.sum()
    loss = np.log1p(rate * np.expm1(z / noise - 0.5 / noise**2))

    def log_integrand(t):  # M(t) = E_0[e^((1+t) L)]
        moment = np.tensordot(np.exp(np.multiply.outer(1 + t, loss)), weight, 1)
        return steps * np.log(moment) - eps * t - np.log(t) - np.log(t + 1)

    real, imaginary = np.linspace(1.5, 7.5, 240), np.linspace(-8, 8, 240)
    values = log_integrand(real + 1j * imaginary[:, None]).real / np.log(10)
    on_axis = log_integrand(real + 0j).real
    saddle = real[np.argmin(on_axis)]
    figure, axis = plt.subplots(figsize=(5.6, 4.2))
    levels = np.arange(-12, 0.5, 0.5)
    filled = axis.contourf(real, imaginary, values, levels=levels, cmap="cividis", extend="both")
    axis.axvline(saddle, color="white", linewidth=1.5)
    axis.plot(saddle, 0, "o", color=ORANGE)
    axis.annotate("saddle", (saddle, 0), (saddle + 0.2, 0.4), color="white")
    figure.colorbar(filled, label="log10 of the integrand's modulus")
    axis.set(xlabel="Re t", ylabel="Im t")
    save(figure, "contour")


def both_sides():
    """A lattice's law above and below, coarse enough to be seen: chords against merged outcomes."""
    curve, points = jaxpriv.worst_case.laplace(1.0), np.linspace(-1.0, 1.0, 4)
    eps, x = np.linspace(0.0, 1.0, 300), np.exp(points)
    above = np.interp(np.exp(eps), x, curve.delta(points))
    # errors of the test that rejects losses above a point: alpha = -d delta/d e^eps
    near = points[:, None] + np.array([-1e-6, 1e-6])
    alpha = -np.diff(curve.delta(near))[:, 0] / np.diff(np.exp(near))[:, 0]
    alpha[[0, -1]] = 1.0, 0.0
    power = curve.delta(points) + x * alpha
    masses = -np.diff(power), -np.diff(alpha)  # of both laws, cell by cell
    below = [np.maximum(masses[0] - np.exp(e) * masses[1], 0).sum() for e in eps]
    figure, axis = plt.subplots(figsize=(5.2, 4.0))
    axis.plot(eps, above, color=ORANGE, linestyle="--", label="chords between lattice points")
    axis.plot(eps, curve.delta(eps), color=BLUE, label="exact profile")
    axis.plot(eps, below, color=GREY, linestyle=":", label="outcomes of a cell merged")
    axis.set(xlabel="ε", ylabel="δ(ε) of one step", xlim=(0, 1), ylim=(0, None))
    axis.legend(frameon=False)
    save(figure, "both_sides")


def save(figure, name):
    figure.tight_layout()
    figure.savefig(HERE / f"{name}.png", dpi=110)


if __name__ == "__main__":
    contact()
    contour()
    both_sides()
