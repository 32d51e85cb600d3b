"""Epsilon over what a sweep went through: lines over one quantity, a map with contours over two."""

import numpy as np

from jaxpriv.report import plots  # first: it says which extra brings matplotlib

from matplotlib.colors import LogNorm  # isort: skip
from matplotlib.patheffects import withStroke  # isort: skip
from matplotlib.ticker import NullFormatter  # isort: skip

_LEVELS = np.array([a * 10.0**b for b in range(-6, 7) for a in (1, 2, 5)])
_HALO = withStroke(linewidth=2.5, foreground="white")  # readable on the dark end of the map
_WIDE = 10  # from this ratio of ends on an axis is logarithmic


def check_axes(axes):
    """Raise ValueError for anything but one or two quantities."""
    if len(axes) not in (1, 2):
        given = f"{len(axes)} vary: {', '.join(axes)}" if axes else "none varies"
        raise ValueError(f"--plot draws over one or two quantities; {given}")


def draw_sweep(axes, rows, delta, path, log=False):
    """Write a PNG of the worst case's upper bound of epsilon, and over one quantity of its lower
    bound and of the relaxed adversary as well, where they are known.

    Args:
        axes: {name: values} of one or two quantities; rows: of `jaxpriv.report.sweep`, one for
            every combination, the last axis changing fastest.
        delta: of the rows; path: of the PNG; log: logarithmic axes; by themselves they are so where
            the values span a factor of 10.

    Raises: ValueError for other numbers of quantities.
    """
    check_axes(axes)
    figure = plots.Figure(figsize=(6.4, 4.8), layout="constrained")
    panel = figure.subplots()
    scales = ["log" if _is_log(values, log) else "linear" for values in axes.values()]
    if len(axes) == 1:
        panel.set(xscale=scales[0], xlabel=_title(next(iter(axes))), ylabel="ε")
        panel.set(title=f"ε at δ = {delta:g}")
        _draw_lines(panel, next(iter(axes.values())), rows)
        panel.set(ylim=(0, None))
        panel.legend(frameon=False)
    else:
        (first, ys), (second, xs) = axes.items()
        panel.set(xlabel=_title(second), ylabel=_title(first))
        panel.set(xscale=scales[1], yscale=scales[0], title=f"ε at δ = {delta:g}, worst case")
        image = _draw_map(panel, xs, ys, scales[::-1], rows)
        if image is not None:
            bar = figure.colorbar(image, ax=panel, label="ε")
            bar.ax.yaxis.set_major_formatter(_plain)
            bar.ax.yaxis.set_minor_formatter(NullFormatter())
    for axis, scale in zip([panel.xaxis, panel.yaxis], scales[::-1]):
        if scale == "log":
            axis.set_major_formatter(_plain)
            axis.set_minor_formatter(_few)
    figure.savefig(path, dpi=120)


def _draw_lines(panel, values, rows):
    order = np.argsort(values, kind="stable")
    x = np.asarray(values, float)[order]
    kinds = [("worst case", rows)]
    if all("relaxed" in row for row in rows):
        kinds.append(("relaxed", [row["relaxed"] for row in rows]))
    for (name, each), colour, style in zip(kinds, plots.COLOURS, plots.STYLES):
        low, high = (_column(each, key)[order] for key in ("epsilon_lower", "epsilon_upper"))
        panel.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
        panel.plot(x, high, color=colour, linestyle=style, marker=".", label=name)


def _draw_map(panel, xs, ys, scales, rows):
    """The map's image, or None where no epsilon is certified; what has none is left grey."""
    found = dict(zip([(y, x) for y in ys for x in xs], _column(rows, "epsilon_upper")))
    columns, lines = sorted(set(xs)), sorted(set(ys))
    epsilons = np.ma.masked_invalid([[found[y, x] for x in columns] for y in lines])
    panel.set_facecolor("0.8")
    if not epsilons.count():
        return None
    low, high = max(float(epsilons.min()), 1e-12), max(float(epsilons.max()), 2e-12)
    norm = LogNorm(low, high) if high / low >= _WIDE else None
    edges = [_edges(values, scale) for values, scale in zip((columns, lines), scales)]
    image = panel.pcolormesh(*edges, epsilons, cmap="cividis_r", norm=norm)
    levels = _LEVELS[(low < _LEVELS) & (high > _LEVELS)]
    if len(levels) < 3:
        levels = np.linspace(low, high, 6)[1:-1]
    if min(epsilons.shape) > 1 and high > low:
        drawn = panel.contour(columns, lines, epsilons, levels, colors="black", linewidths=1)
        drawn.set(path_effects=[_HALO])
        for label in panel.clabel(drawn, fmt=lambda level: f"{level:.3g}", fontsize=9):
            label.set_path_effects([_HALO])
    return image


def _column(rows, name):
    """NaN for what could not be certified, which is drawn nowhere."""
    values = [row[name] for row in rows]
    return np.array([np.nan if value is None else value for value in values], float)


def _edges(values, scale):
    """Of cells around the values."""
    ends = np.log(values) if scale == "log" else np.asarray(values, float)
    middles = (ends[1:] + ends[:-1]) / 2
    edges = np.concatenate([[2 * ends[0] - middles[0]], middles, [2 * ends[-1] - middles[-1]]])
    return np.exp(edges) if scale == "log" else edges


def _is_log(values, log):
    low, high = min(values), max(values)
    return low > 0 and (log or high / low >= _WIDE)


def _plain(value, place):
    """A tick as a number rather than as a power of 10."""
    del place
    return f"{value:g}"


def _few(value, place):
    """Of the ticks between powers of 10 those of 2 and 5 are named."""
    return _plain(value, place) if f"{value:.0e}"[0] in "25" else ""


def _title(name):
    return name.replace("_", " ")
