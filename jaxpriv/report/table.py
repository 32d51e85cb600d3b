"""A certificate as a table for the terminal."""

from jaxpriv._rounding import rounded_down, shown
from jaxpriv.report.terminal import Sheet

READING = (
    "ε: certified brackets, rounded outward; else upper bounds, rounded up. μ: of the highest "
    "Gaussian curve that is below the trade-off curve but for the slack, in type II error, at "
    "every type I error."
)


def render(certificate):
    """The `Sheet` of a `certify` dictionary."""
    delta = certificate["delta"]
    rates = list(certificate["adversaries"][0]["tpr_at_fpr"])
    headings = ["adversary", f"ε at δ={delta:g}", f"μ at slack {delta:g}", "advantage",
                *(f"TPR at FPR {rate}" for rate in rates)]
    rows = []
    for row in certificate["adversaries"]:
        low, high = shown(row["epsilon_lower"], rounded_down), shown(row["epsilon"])
        numbers = (row["mu_at_slack"], row["advantage"], *row["tpr_at_fpr"].values())
        rows.append([row["adversary"], f"[{low}, {high}]", *map(shown, numbers)])
    lines = [
        certificate["description"],
        f"Adjacency: {certificate['adjacency']}. Sampling: {certificate['sampling']}.",
    ]
    lines += [f"{row['adversary']}: {row['assumption']}" for row in certificate["adversaries"]]
    if certificate.get("if_shuffled"):
        lines.append(certificate["if_shuffled"]["sentence"])
    lines += [f"Note: {note}" for note in certificate.get("notes", ())]
    lines.append(f"{READING} Only the worst case is a differential privacy guarantee.")
    return Sheet("Privacy certificate", headings, rows, lines)
