"""Trade-off curves, privacy profiles and epsilon over the steps, all adversaries in one picture;
ROC curves of attacks.
"""

import numpy as np

from jaxpriv import auditing
from jaxpriv._rounding import rounded_up
from jaxpriv.report.certificate import VACUOUS

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise ModuleNotFoundError("plots need matplotlib: pip install 'jaxpriv[plots]'") from None

_COLOURS = ("#c0392b", "#2c6fbb", "#2a9d5c")
_STYLES = ("-", "-.", (0, (6, 6)))  # broken, for one may lie on the other
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
    for (name, *_), colour, profile in zip(rows, _COLOURS, profiles):
        left.plot(*_trade_off(epsilons, profile), label=name, color=colour)
        right.semilogy(epsilons, np.where(profile > 0, profile, np.nan), label=name, color=colour)
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
    for (name, curve), colour in zip(claims, _COLOURS):
        axes.plot(alpha, curve.power(alpha), color=colour, label=name)
    axes.plot(alpha, alpha, color="0.6", linestyle=":", label="chance")
    axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.05),
             title="Attack against claims")
    axes.set(
        xlabel="type I error α (false positive rate)", ylabel="power 1 − β (true positive rate)"
    )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=120)


def draw_training(profiles, history, delta, audit, file):
    """Write a PNG with the trade-off curves, the privacy profiles and what was spent, with held-out
    accuracy, over the steps.

    Args:
        profiles: [(name, `CertifiedProfile`)], the worst case first;
            history: rows of {"step", "epsilon", numbers};
        audit: with "epsilon_lower", or None; file: to write to.
    """
    figure = Figure(figsize=(12.5, 3.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    largest = max(min(max(e for e, d in profiles[0][1].known() if d > 1e-2 * delta), 50.0), 1e-3)
    worst = profiles[0][1]
    for epsilon in np.linspace(0.0, largest, _POINTS):
        worst.delta(epsilon)
    for (name, profile), colour, style in zip(profiles, _COLOURS, _STYLES):
        # who knows less sees no more than the worst case,
        # whatever the approximation behind a curve says
        both = [
            tuple(np.asarray(column) for column in zip(*each.known())) for each in (profile, worst)
        ]
        curves = [_trade_off(*each) for each in both]
        grid = np.union1d(*(alpha for alpha, _ in curves))
        left.plot(grid, np.max([np.interp(grid, *curve) for curve in curves], 0), linestyle=style,
                  label=name, color=colour)
        grid = np.union1d(*(epsilons for epsilons, _ in both))
        logs = [
            np.interp(grid, epsilons, np.log(np.maximum(deltas, 1e-300)))
            for epsilons, deltas in both
        ]
        middle.semilogy(grid, np.exp(np.min(logs, 0)), linestyle=style, label=name, color=colour)
    left.plot([0, 1], [1, 0], color="0.7", linestyle=":", label="perfect privacy")
    left.set(xlabel="type I error α (false positive rate)", ylabel="type II error β",
             title="Trade-off curves")
    left.set(xlim=(0, 1), ylim=(0, 1))
    middle.axhline(delta, color="0.7", linestyle=":", label=f"δ = {delta:g}")
    middle.set(xlabel="ε", ylabel="δ(ε)", title="Privacy profiles", xlim=(0, largest),
               ylim=(delta * 1e-2, 1))
    if audit is not None:
        middle.axvline(audit["epsilon_lower"], color="black", linestyle="--",
                       label="measured by canaries, ε ≥")
    steps = [row["step"] for row in history]
    right.plot(
        steps, [row["epsilon"] for row in history], ".-", color=_COLOURS[0], label="ε, worst case"
    )
    right.set(
        xlabel="steps", ylabel=f"ε at δ = {delta:g}", title="Spent and learned", ylim=(0, None)
    )
    if history and "test_accuracy" in history[-1]:
        other = right.twinx()
        other.plot(steps, [row["test_accuracy"] for row in history], ".-", color=_COLOURS[2],
                   label="accuracy, held-out records")
        other.set(ylabel="accuracy", ylim=(0, 1))
        right.plot([], [], ".-", color=_COLOURS[2], label="accuracy, held-out records")
    for axes, place in ((left, "upper right"), (middle, "lower center"), (right, "lower right")):
        axes.legend(loc=place, edgecolor="none", framealpha=0.9)  # a page's curves may run anywhere
    figure.savefig(file, dpi=150, format="png")


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
    for name, colour, spent in zip(names, _COLOURS, uppers):
        axes.plot(counts, spent, ".-", label=name, color=colour)
        axes.plot(counts[-1:], spent[-1:], "o", color=colour, clip_on=False)
        total = rounded_up(spent[-1])
        axes.annotate(total, (counts[-1], spent[-1]), (-8, 7), textcoords="offset points",
                      ha="right", color=colour)
    axes.set(xlabel="steps", ylabel=f"ε at δ = {delta:g}", title="Privacy spent")
    axes.set(xlim=(0, counts[-1]), ylim=(0, 1.2 * np.max(uppers)))


def _trade_off(epsilons, deltas):
    """(alpha, beta) of a symmetric curve from its profile: a polygon of its supporting lines
    beta = 1 - delta(eps) - e^eps alpha.

    The other direction's lines mirror them, so only alpha <= beta is computed. Two neighbours meet
    at the corner alpha = (delta_i - delta_j)/(e^eps_j - e^eps_i).
    """
    rises = np.exp(epsilons)
    alpha = np.append(-np.diff(deltas) / np.diff(rises), 0.0)
    beta = np.append(1 - deltas[:-1] - rises[:-1] * alpha[:-1], 1 - deltas[-1])
    return np.concatenate([alpha[::-1], beta]), np.concatenate([beta[::-1], alpha])
