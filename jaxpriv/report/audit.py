"""What saved scores of an attack prove, beside what was claimed: numbers, a table, and a picture."""

import csv
import zipfile
from pathlib import Path

import numpy as np

from jaxpriv import auditing, worst_case
from jaxpriv.report.config import dp_sgd_from, mechanism_from, read_toml

_FPRS = (1e-3, 1e-2, 1e-1)
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


def read_scores(path):
    """(scores, member) from an .npz with arrays `score` and `member`, or a .csv with columns of these names.

    Raises: ValueError naming file, line and value; OSError where the file cannot be read.
    """
    path = Path(path)
    if path.suffix == ".npz":
        if path.exists() and not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is not an .npz file")
        with np.load(path) as arrays:
            missing = [name for name in ("score", "member") if name not in arrays]
            if missing:
                raise ValueError(f"{path} has no array {missing[0]!r}, but {', '.join(arrays.files) or 'none'}")
            return arrays["score"], arrays["member"]
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return _from_rows(path, csv.DictReader(file))
    raise ValueError(f"{path} is neither .npz nor .csv")


def _from_rows(path, rows):
    missing = [name for name in ("score", "member") if name not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}, but {', '.join(rows.fieldnames or ()) or 'none'}")
    scores, member = [], []
    for row in rows:
        try:
            scores.append(float(row["score"]))
        except (TypeError, ValueError):
            raise ValueError(f"{path}, line {rows.line_num}: score = {row['score']!r} is not a number") from None
        truth = _TRUTH.get(str(row["member"]).strip().lower())
        if truth is None:
            raise ValueError(f"{path}, line {rows.line_num}: member = {row['member']!r}; accepted: {', '.join(_TRUTH)}")
        member.append(truth)
    return np.array(scores), np.array(member, bool)


def claims_from(path=None, mu=None, epsilon=None, delta=None):
    """([(name, symmetric curve)], delta) of what is claimed, the guarantee first: by a TOML file of `certify`, mu, or epsilon.

    `delta` wins over that of the file; 1e-5 where neither says. Raises: ValueError for more than one claim.
    """
    if sum(value is not None for value in (path, mu, epsilon)) > 1:
        raise ValueError("give one claim: --claim, --mu or --epsilon")
    table, settings, file_delta = (None, {}, None) if path is None else read_toml(path)
    delta = next(value for value in (delta, file_delta, 1e-5) if value is not None)
    if mu is not None:
        return [(f"claimed, μ = {mu:g}", worst_case.gaussian(mu).symmetric())], delta
    if epsilon is not None:
        return [(f"claimed, ε = {epsilon:g} at δ = {delta:g}", worst_case.approximate_dp(epsilon, delta).symmetric())], delta
    if path is None:
        return [], delta
    mechanism = dp_sgd_from(settings, delta) if table == "dp_sgd" else mechanism_from(settings)
    return [(f"claimed, {name}", curve) for name, _, curve in mechanism.adversaries()], delta


def audit_report(scores, member, claims=(), delta=1e-5, confidence=0.95):
    """A dictionary of what the scores prove, for JSON and the table.

    Args: scores, member, confidence: as for `jaxpriv.auditing.audit`; claims: from `claims_from`; delta: in (0, 1).
    """
    found = auditing.audit(scores, member, confidence)
    rates = {fpr: auditing.tpr_at_fpr(scores, member, fpr, confidence) for fpr in _FPRS}
    return {
        "scores": len(scores), "members": found.members, "non_members": found.others, "confidence": confidence, "delta": delta,
        "auc": auditing.auc(scores, member), "advantage": auditing.advantage(scores, member),
        "epsilon_lower": found.epsilon(delta), "mu_lower": found.mu(), "gaussian_epsilon_lower": found.gaussian_epsilon(delta),
        "tpr_at_fpr": {f"{fpr:g}": rate._asdict() for fpr, rate in rates.items()},
        "claims": [{"claim": name, **vars(found.violation(curve))} for name, curve in claims],
    }


def render_audit(report):
    """The report as something `rich` prints."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from jaxpriv.report.table import rounded_down, rounded_up

    sure = f"{report['confidence']:.0%}"
    rows = Table(title=f"Privacy audit of {report['members']} members and {report['non_members']} others", title_justify="left")
    rows.add_column("quantity")
    rows.add_column("estimate", justify="right")
    rows.add_column(f"with {sure} confidence", justify="right")
    rows.add_row("AUC", f"{report['auc']:.4f}", "")
    rows.add_row("advantage", f"{report['advantage']:.4f}", "")
    for fpr, rate in report["tpr_at_fpr"].items():
        limits = f"[{rate['lower']:.4f}, {rate['upper']:.4f}]" if rate["resolved"] else f"≤ {rate['upper']:.4f}; too few scores"
        rows.add_row(f"TPR at FPR {fpr}", f"{rate['estimate']:.4f}", Text(limits))
    rows.add_row(f"ε at δ={report['delta']:g}", "", f"≥ {rounded_down(report['epsilon_lower'])}")
    rows.add_row("μ (GDP)", "", f"≥ {rounded_down(report['mu_lower'])}")
    gaussian = rounded_down(report["gaussian_epsilon_lower"])
    rows.add_row(f"ε at δ={report['delta']:g} if the curve is Gaussian", "", f"≥ {gaussian}")
    lines = []
    for claim in report["claims"]:
        said = "VIOLATED" if claim["violated"] else "not refuted"
        at = f"power ≥ {rounded_down(claim['power'])} at type I error ≤ {rounded_up(claim['alpha'])}"
        test = f" ({claim['direction']} test: {at}, where it allows {claim['allowed']:.4g})"
        lines.append(f"{claim['claim']}: {said}{test if claim['violated'] else ''}.")
    lines.append(f"All lower bounds and verdicts hold together with {sure} confidence; each TPR interval on its own. "
                 "An attack that finds nothing proves no privacy.")
    return Group(rows, *map(Text, lines))
