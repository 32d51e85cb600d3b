"""A certificate as a table for the terminal."""

import math

from rich.console import Group
from rich.table import Table
from rich.text import Text

READING = ("ε: certified brackets, rounded outward; else upper bounds, rounded up. μ: of the highest Gaussian curve below the "
           "trade-off curve; the smallest errors decide it.")


def rounded_up(value, digits=4):
    """A number printed on the safe side: never below its value."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = _unit(value, digits)
    shown = f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}"
    return shown if float(shown) >= value * (1 - 1e-11) else f"{float(shown) + unit:.{digits}g}"


def rounded_down(value, digits=4):
    """A number >= 0 printed on its other side: never above its value."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = _unit(value, digits)
    shown = f"{math.floor(value / unit * (1 + 1e-12)) * unit:.{digits}g}"
    return shown if float(shown) <= value * (1 + 1e-11) else f"{float(shown) - unit:.{digits}g}"


def _unit(value, digits):
    """Of the last digit that is shown."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)


def render(certificate):
    """The rich renderable of a `certify` dictionary."""
    delta = certificate["delta"]
    rates = list(certificate["adversaries"][0]["tpr_at_fpr"])
    table = Table(title="Privacy certificate", title_justify="left")
    table.add_column("adversary", no_wrap=True)
    for heading in (f"ε at δ={delta:g}", "μ (GDP)", "advantage", *(f"TPR at FPR {rate}" for rate in rates)):
        table.add_column(heading, justify="right")
    for row in certificate["adversaries"]:
        bracket = f"[{rounded_down(row['epsilon_lower'])}, {rounded_up(row['epsilon'])}]"
        numbers = (row["gdp_mu"], row["advantage"], *row["tpr_at_fpr"].values())
        # as Text: in a table's markup square brackets are commands
        table.add_row(row["adversary"], Text(bracket), *map(rounded_up, numbers))
    lines = [certificate["description"], f"Adjacency: {certificate['adjacency']}. Sampling: {certificate['sampling']}."]
    lines += [f"{row['adversary']}: {row['assumption']}" for row in certificate["adversaries"]]
    lines.append(f"{READING} Only the worst case is a differential privacy guarantee.")
    return Group(table, *(Text(line) for line in lines))

