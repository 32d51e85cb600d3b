"""A certificate as a table for the terminal."""

import math

from rich.console import Group
from rich.table import Table
from rich.text import Text


def rounded_up(value, digits=4):
    """A number printed on the safe side: never below its value."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    shown = f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}"
    return shown if float(shown) >= value * (1 - 1e-11) else f"{float(shown) + unit:.{digits}g}"


def render(certificate):
    """The rich renderable of a `certify` dictionary."""
    mechanism, delta = certificate["mechanism"], certificate["delta"]
    rates = list(certificate["adversaries"][0]["tpr_at_fpr"])
    table = Table(title="Privacy certificate", title_justify="left")
    table.add_column("adversary", no_wrap=True)
    for heading in (f"ε at δ={delta:g}", "μ (GDP)", "advantage", *(f"TPR at FPR {rate}" for rate in rates)):
        table.add_column(heading, justify="right")
    for row in certificate["adversaries"]:
        numbers = (row["epsilon"], row["gdp_mu"], row["advantage"], *row["tpr_at_fpr"].values())
        table.add_row(row["adversary"], *map(rounded_up, numbers))
    lines = [describe(mechanism), f"Adjacency: {certificate['adjacency']}. Sampling: {certificate['sampling']}."]
    lines += [f"{row['adversary']}: {row['assumption']}" for row in certificate["adversaries"]]
    lines.append("Upper bounds, rounded up. Only the worst case is a differential privacy guarantee.")
    return Group(table, *(Text(line) for line in lines))


def describe(mechanism):
    """The mechanism in one sentence."""
    count = len(mechanism["scales"])
    unit = "std" if mechanism["noise"] == "gaussian" else "scale"
    pairs = sorted(set(zip(mechanism["sensitivities"], mechanism["scales"])))
    if len(pairs) == 1:
        size = f"sensitivity {pairs[0][0]:g}, {unit} {pairs[0][1]:g}"
    else:
        size = f"{len(pairs)} different pairs of sensitivity and {unit}"
    return f"Mechanism: {count} release{'s' * (count > 1)} with {mechanism['noise']} noise, {size}, dimension {mechanism['dim']}."
