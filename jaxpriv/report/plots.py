"""Trade-off curves, privacy profiles and epsilon over the steps, all adversaries in one picture;
ROC curves of attacks.
"""

import numpy as np

from jaxpriv import auditing
from jaxpriv._rounding import rounded_up
from jaxpriv.report.certificate import VACUOUS
from jaxpriv.report.profiles import trade_off

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxpriv[plots]'") from None

# told apart by colour-blind people, as on the page; and broken, for one may lie on another
COLOURS = ("#0072b2", "#b34700", "#882255")
STYLES = ("-", "--", "-.")
_POINTS = 32


def draw(mechanism, delta, path):
    """Write a PNG with f(alpha), delta(epsilon) and, where there are stages,
    epsilon over the steps of every adversary.

    Args:
        mechanism: a `Mechanism`, a `DpSgd` or a `Pipeline`; delta: as for `certify`.
        path: of the PNG.

    Importing this module without matplotlib raises ModuleNotFoundError with the extra to install.
    """
    rows, stages = mechanism.adversaries(), mechanism.stages()
    largest = _largest(rows[0][2], delta)
    # dense at 0, where the trade-off curve bends most
    epsilons = largest * np.linspace(0.0, 1.0, _POINTS) ** 2
    profiles = [curve.delta(epsilons) for *_, curve in rows]
    panels = 3 if stages else 2
    figure = Figure(figsize=(5 * panels, 4.2), layout="constrained")
    left, right, *last = figure.subplots(1, panels)
    for (name, *_), colour, style, profile in zip(rows, COLOURS, STYLES, profiles):
        look = {"label": name, "color": colour, "linestyle": style}
        left.plot(*trade_off(epsilons, profile), **look)
        right.semilogy(epsilons, np.where(profile > 0, profile, np.nan), **look)
    left.plot([0, 1], [1, 0], color="0.7", linestyle=":", label="perfect privacy")
    left.set(xlabel="type I error α (false positive rate)", ylabel="type II error β",
             title="Trade-off curves")
    left.set(xlim=(0, 1), ylim=(0, 1))
    right.axhline(delta, color="0.7", linestyle=":", label=f"δ = {delta:g}")
    right.set(xlabel="ε", ylabel="δ(ε)", title="Privacy profiles", xlim=(0, largest),
              ylim=(delta * 1e-2, 1))
    for axes in last:
        counts, adversaries = stages
        uppers = np.stack([curve.epsilon_bounds(delta)[1] for *_, curve in adversaries])
        _draw_stages(axes, delta, [name for name, *_ in rows], counts, uppers)
    for axes in (left, right, *last):
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def draw_roc(scores, member, claims, path, confidence=0.95):
    """Write a PNG with the ROC curve of an attack in logarithms, its simultaneous band,
    and the claimed curves.

    Args: scores, member, confidence: as for `jaxpriv.auditing.audit`;
        claims: [(name, curve)]; path: of the PNG.
    """
    fpr, tpr = auditing.roc(scores, member)
    floor = 0.5 / max(np.sum(~np.asarray(member, bool)), 10)
    alpha = np.geomspace(floor, 1.0, 4 * _POINTS)
    low, high = auditing.audit(scores, member, confidence, 64).band(alpha)
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(alpha, np.maximum(low, floor / 10), high, color="0.85",
                      label=f"band, {confidence:.0%} everywhere at once")
    axes.step(np.maximum(fpr, floor / 10), np.maximum(tpr, floor / 10), where="post", color="black",
              label="attack")
    for (name, curve), colour in zip(claims, COLOURS):
        axes.plot(alpha, curve.power(alpha), color=colour, label=name)
    axes.plot(alpha, alpha, color="0.6", linestyle=":", label="chance")
    axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.05),
             title="Attack against claims")
    axes.set(
        xlabel="type I error α (false positive rate)", ylabel="power 1 − β (true positive rate)"
    )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=120)


def _largest(curve, delta):
    """The epsilon up to which a profile is drawn: at a hundredth of delta, or where none meets
    that, as of a black box, at a larger one.
    """
    for asked in (delta * 1e-2, delta, delta**0.5, 0.5):
        epsilon = curve.epsilon_bounds(asked)[1]
        if np.isfinite(epsilon):
            return max(epsilon, 1e-3)
    return VACUOUS


def _draw_stages(axes, delta, names, counts, uppers):
    """uppers: (adversaries, stages)."""
    for name, colour, spent in zip(names, COLOURS, uppers):
        axes.plot(counts, spent, ".-", label=name, color=colour)
        axes.plot(counts[-1:], spent[-1:], "o", color=colour, clip_on=False)
        total = rounded_up(spent[-1])
        axes.annotate(total, (counts[-1], spent[-1]), (-8, 7), textcoords="offset points",
                      ha="right", color=colour)
    axes.set(xlabel="steps", ylabel=f"ε at δ = {delta:g}", title="Privacy spent")
    axes.set(xlim=(0, counts[-1]), ylim=(0, 1.2 * np.max(uppers)))
