"""The pictures of a certificate's page: SVG by hand, without scripts; what is told by colour is
told by shape as well, and every point says its numbers where a pointer rests on it.
"""

import html
import math

from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.report.plain_words import ACCUSED, PEOPLE, TOOK_PART
from jaxpriv.report.profiles import lines_of, polygon

_COLUMNS, _ICONS = 25, 100
_WIDTH, _HEIGHT = 360, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 26, 40
_HEAD = '<circle cx="7" cy="5" r="3.2"/>'
_BODY = '<path d="M1.5 17.5v-2.7c0-3 2.2-5 5.5-5s5.5 2 5.5 5v2.7z"/>'


def people(plain):
    """A hundred accusations as people: those that are right filled, by parts of one where needed.

    Args: plain: what `jaxpriv.report.plain_words.in_plain_words` returns.
    Returns: an HTML figure: SVG and its caption.
    """
    right = _ICONS * plain["right"] / ACCUSED
    guessed = _ICONS * TOOK_PART / PEOPLE
    shown, wrong = rounded_up(right, 2), rounded_down(_ICONS - right, 3)
    more = f"{float(shown) - guessed:.3g}"
    rows = _ICONS // _COLUMNS
    said = (f"Of {_ICONS} accusations at most {shown} are right, {guessed:g} of them by blind "
            f"guessing, and at least {wrong} are wrong.")  # fmt: skip
    icons = "".join(
        _person(k, min(max(guessed - k, 0), 1), min(max(right - k, 0), 1)) for k in range(_ICONS)
    )
    legend = "".join(
        f'<span><svg viewBox="0 0 14 19" aria-hidden="true">{_one(kind)}</svg> {text}</span>'
        for kind, text in (
            ("guess", f"right, as of blind guessing: {guessed:g}"),
            ("right", f"right beyond that: at most {more}"),
            ("wrong", f"wrong: at least {wrong}"),
        )
    )
    return (
        f'<figure class="people"><svg viewBox="0 0 {_COLUMNS * 16} {rows * 21}" role="img" '
        f'aria-label="{said}"><title>{said}</title>{icons}</svg>'
        f"<figcaption><b>{_ICONS} accusations of the best attacker</b>{legend}</figcaption>"
        "</figure>"
    )


def _one(kind):
    return f'<g class="{kind}">{_HEAD}{_BODY}</g>'


def _person(number, guessed, right):
    """guessed, right: the parts of this one that are filled, from the left; right >= guessed."""
    row, column = divmod(number, _COLUMNS)
    drawn = [_one("wrong")]
    for kind, part in (("right", right), ("guess", guessed)):
        if part > 0:
            cut = "" if part == 1 else f' style="clip-path:inset(0 {100 * (1 - part):.0f}% 0 0)"'
            drawn.append(f"<g{cut}>{_one(kind)}</g>")
    return f'<g transform="translate({16 * column + 1} {21 * row + 1})">{"".join(drawn)}</g>'


def trade_off_figure(rows, delta):
    """The trade-off curves of a certificate's rows, as an HTML figure."""
    series = []
    for row in rows:
        alpha, beta = polygon(lines_of(row, delta))
        points = [(float(a), float(b), f"{row['adversary']}: accusing {rounded_up(a, 3)} of those "
                   f"who did not take part misses at least {rounded_down(b, 3)} of those who did")
                  for a, b in zip(alpha, beta)]  # fmt: skip
        series.append((row["adversary"], points))
    starts = (f"{name} starts at {rounded_down(points[0][1], 3)}." for name, points in series)
    said = f"Trade-off curves: the least type II error over the type I error. {' '.join(starts)}"
    return _figure("Trade-off curves", said, series, _Axis(0, 1, "type I error α"),
                   _Axis(0, 1, "type II error β"), diagonal=True)  # fmt: skip


def profile_figure(rows, delta, measured=None):
    """The privacy profiles of a certificate's rows in logarithms, as an HTML figure; measured: a
    lower bound of epsilon by an audit.
    """
    floor = 10.0 ** math.floor(math.log10(delta) - 2)
    series = []
    for row in rows:
        points = [(float(at), value, f"{row['adversary']}: δ({at}) ≤ {rounded_up(value, 3)}")
                  for at, value in row["profile"].items()]  # fmt: skip
        series.append((row["adversary"], _down_to(floor, points)))
    ends = (f"{name} ends at ε = {points[-1][0]:.3g} with {points[-1][1]:.2g}."
            for name, points in series)  # fmt: skip
    said = f"Privacy profiles: delta over epsilon, δ = {delta:g} marked. {' '.join(ends)}"
    largest = max(float(at) for at in rows[0]["profile"])
    marks = [(None, delta, f"δ = {delta:g}")]
    if measured is not None:
        marks.append((measured, None, f"measured: ε ≥ {rounded_down(measured)}"))
    return _figure("Privacy profiles", said, series, _Axis(0, largest, "ε"),
                   _Axis(floor, 1, "δ(ε)", log=True), marks=marks)  # fmt: skip


def _down_to(floor, points):
    """The points above the floor, and where the line to the next one meets it."""
    above = [point for point in points if point[1] > floor]
    if len(above) == len(points) or not above:
        return above or points[:1]
    (near, high, _), (far, low, _) = above[-1], points[len(above)]
    share = math.log(high / floor) / math.log(high / max(low, 1e-300))
    return [*above, (near + (far - near) * share, floor, None)]


def history_figures(history, delta):
    """What was spent over the steps of a training, and what was learned, as HTML figures."""
    steps = [row["step"] for row in history]
    figures = []
    learned = ("test_accuracy", "Learned", "accuracy, held-out records")
    for name, title, text in (("epsilon", "Spent", f"ε at δ = {delta:g}"), learned):
        if not history or not all(math.isfinite(row.get(name, math.nan)) for row in history):
            continue
        values = [float(row[name]) for row in history]
        shown = [rounded_up(value) if name == "epsilon" else f"{value:.4g}" for value in values]
        points = [(step, value, f"step {step}: {text}: {number}")
                  for step, value, number in zip(steps, values, shown)]  # fmt: skip
        top = 1.0 if name == "test_accuracy" else max(*values, 1e-9)
        said = f"{text} at each of {len(steps)} evaluations, at the end {shown[-1]}."
        figures.append(_figure(title, said, [(text, points)], _Axis(0, max(steps), "steps"),
                               _Axis(0, top, text)))  # fmt: skip
    return "".join(figures)


class _Axis:
    """From numbers to places on a page, and the marks beside it."""

    def __init__(self, low, high, label, log=False):
        self.low, self.high, self.label, self.log = low, high, label, log

    def share(self, value):
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self):
        if self.log:
            decades = round(math.log10(self.high / self.low))
            each = -(-decades // 7)
            return [(self.high * 10.0**-k, f"1e-{k}" if k else "1")
                    for k in range(0, decades + 1, each)]  # fmt: skip
        raw = (self.high - self.low) / 4
        unit = 10.0 ** math.floor(math.log10(raw))
        step = unit * next(m for m in (1, 2, 2.5, 5, 10) if unit * m >= raw * (1 - 1e-9))
        count = math.floor((self.high - self.low) / step * (1 + 1e-9))
        return [(self.low + k * step, f"{self.low + k * step:.4g}") for k in range(count + 1)]


def _figure(title, said, series, across, up, diagonal=False, marks=()):
    """series: [(name, [(x, y, what a pointer is told, or None)])];
    marks: [(x or None, y or None, text)].
    """

    def at(x, y):
        return (_LEFT + across.share(x) * (_WIDTH - _LEFT - _RIGHT),
                _HEIGHT - _BOTTOM - up.share(y) * (_HEIGHT - _TOP - _BOTTOM))  # fmt: skip

    left, bottom = at(across.low, up.low)
    right, top = at(across.high, up.high)
    drawn = [f'<text class="title" x="{left}" y="14">{title}</text>']
    for value, text in across.ticks():
        x, _ = at(value, up.low)
        drawn.append(f'<path class="grid" d="M{x:.1f} {bottom}V{top}"/><text x="{x:.1f}" '
                     f'y="{bottom + 14}" text-anchor="middle">{text}</text>')  # fmt: skip
    for value, text in up.ticks():
        _, y = at(across.low, value)
        drawn.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/><text x="{left - 5}" '
                     f'y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')  # fmt: skip
    drawn.append(f'<text x="{right}" y="{_HEIGHT - 8}" text-anchor="end">{across.label}</text>')
    drawn.append(f'<text x="{right}" y="14" text-anchor="end">up: {up.label}</text>')
    if diagonal:
        drawn.append(f'<path class="mark" d="M{left} {top}L{right} {bottom}"/>')
    for x, y, text in marks:
        a, b = at(across.low if x is None else min(x, across.high), up.high if y is None else y)
        line = f"M{left} {b:.1f}H{right}" if x is None else f"M{a:.1f} {bottom}V{top}"
        place = (f'x="{right - 3}" y="{b - 4:.1f}" text-anchor="end"' if x is None
                 else f'x="{a + 4:.1f}" y="{top + 12}"')  # fmt: skip
        drawn.append(f'<path class="mark" d="{line}"/><text {place}>{text}</text>')
    for number, (_, points) in enumerate(series):
        places = [(*at(x, y), told) for x, y, told in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
        drawn.append(f'<path class="curve c{number}" d="M{path}"/>')
        drawn += [f'<g class="point c{number}"><circle class="near" cx="{x:.1f}" cy="{y:.1f}" '
                  f'r="7"/><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
                  f"<title>{html.escape(told)}</title></g>"
                  for x, y, told in places if told is not None]  # fmt: skip
    legend = "".join(
        f'<span><svg viewBox="0 0 30 8" class="key" aria-hidden="true"><path class="curve '
        f'c{number}" d="M0 4H30"/></svg> {html.escape(name)}</span>'
        for number, (name, _) in enumerate(series)
    )
    return (
        f'<figure class="chart"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(said)}">{"".join(drawn)}</svg>'
        f"<figcaption>{legend}</figcaption></figure>"
    )
