"""What a campaign of attacks found: a table, and ROC curves beside the curve that bounds them."""

import io
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxpriv import auditing
from jaxpriv._rounding import rounded_down, rounded_up

# told apart by colour-blind people; and broken, for one may lie on another
LOOKS = {
    "loss threshold": ("#999999", "-"), "offline LiRA": ("#56b4e9", "--"),
    "online LiRA": ("#0072b2", "-"), "offline RMIA": ("#e69f00", "--"),
    "online RMIA": ("#b34700", "-"), "quantile regression": ("#009e73", "-."),
}  # fmt: skip


class Leak(NamedTuple):
    """What one attack reached: `auc` and `tpr` are estimates, `proved` is a lower bound of epsilon,
    `p_value` that of the claimed curve (None without one), `refuted` whether it is too small.
    """

    auc: float
    tpr: auditing.Rate
    proved: auditing.OneRun
    p_value: float | None
    refuted: bool


@dataclass(frozen=True)
class Campaign:
    """What the attacks of a campaign reached, and what that proves. From `campaign`; `print` shows
    a table in ASCII, which is Markdown.

    scores: by attack, `Float[numpy.ndarray, "targets records"]`. member:
    `Bool[numpy.ndarray, "targets records"]`. leaks: a `Leak` by attack.
    """

    scores: dict[str, np.ndarray]
    member: np.ndarray
    leaks: dict[str, Leak]
    shadows: int
    curve: Any
    delta: float
    fpr: float
    confidence: float

    @property
    def refuted(self):
        """The attacks that refute the claimed curve; all of them are right together with
        probability `confidence`.
        """
        return [name for name, leak in self.leaks.items() if leak.refuted]

    def __str__(self):
        from rich.console import Console  # only here: most never print one

        text = io.StringIO()
        Console(file=text, width=96).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().strip().split("\n"))

    def __rich_console__(self, console, options):
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.MARKDOWN)
        for number, heading in enumerate(("attack", "AUC", f"TPR at FPR {self.fpr:g}",
                                          f"epsilon at delta {self.delta:g}")):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in self.rows():
            table.add_row(*map(Text, row))
        yield table
        yield from (Text(line) for line in self.lines())

    def rows(self):
        """Texts of the table's rows: name, AUC, TPR with its interval, lower bound of epsilon; at
        last what the claimed curve allows.
        """
        rows = [(name, f"{leak.auc:.3f}",
                 f"{leak.tpr.estimate:.3f} [{rounded_down(leak.tpr.lower, 3)}, "
                 f"{rounded_up(leak.tpr.upper, 3)}]", f">= {rounded_down(leak.proved.epsilon, 3)}")
                for name, leak in self.leaks.items()]
        if self.curve is not None:
            power = 1 - float(self.curve.beta_bounds(self.fpr)[0])
            epsilon = float(self.curve.epsilon_bounds(self.delta)[1])
            rows.append(("worst case, as claimed", f"<= {rounded_up(float(self.curve.auc()), 3)}",
                         f"<= {rounded_up(power, 3)}", f"<= {rounded_up(epsilon, 3)}"))
        return rows

    def lines(self):
        """Sentences below the table: what its numbers are."""
        targets, records = self.member.shape
        lines = [
            f"{records} records, each in or out of {targets} target models by a fair coin; "
            f"{self.shadows} shadow models.",
            "Epsilon is a lower bound of what this training leaks, all rows together with "
            f"{100 * self.confidence:g}% confidence. It is no guarantee: another attack may find "
            "more.",
            "AUC and TPR are estimates; the intervals count all pairs of target and record as "
            "independent.",
        ]
        if self.refuted:
            names = ", ".join(f"{name} (p = {rounded_up(self.leaks[name].p_value, 2)})"
                              for name in self.refuted)
            lines.append(f"The claimed curve is REFUTED by {names}: the claim, the code or an "
                         "assumption is wrong.")
        elif self.curve is not None:
            lines.append("The claimed curve is not refuted; it is what holds against everyone, if "
                         "the claim is right.")
        return lines

    def plot(self, path):
        """Write a picture (PNG, PDF, SVG) of all ROC curves in logarithms, with the claimed curve,
        above which no attack can stay.

        Raises: ModuleNotFoundError without matplotlib, with the extra to install.
        """
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "plots need matplotlib: pip install 'jaxpriv[plots]'"
            ) from None
        member = self.member.ravel()
        floor = 1 / np.sum(~member)
        alpha = np.geomspace(floor, 1.0, 100)
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        axes = figure.subplots()
        if self.curve is not None:
            axes.plot(alpha, self.curve.power(alpha), "k-", linewidth=2,
                      label="worst case, as claimed")
        for name, score in self.scores.items():
            fpr, tpr = auditing.roc(score.ravel(), member)
            colour, style = LOOKS[name]
            axes.step(np.maximum(fpr, floor / 10), np.maximum(tpr, floor / 10), where="post",
                      color=colour, linestyle=style,
                      label=f"{name}, AUC {self.leaks[name].auc:.3f}")
        axes.plot(alpha, alpha, color="0.6", linestyle=":", label="chance")
        axes.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.05),
                 title="Attacks on this training: estimates, no guarantee",
                 xlabel="type I error α (false positive rate)",
                 ylabel="power 1 − β (true positive rate)")
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=120)
