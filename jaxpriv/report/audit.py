"""What saved scores of an attack prove, beside what was claimed:
numbers, a table, and a picture.
"""

import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np

from jaxpriv import auditing, worst_case
from jaxpriv._checks import NONNEGATIVE, check_number
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.report.config import described_by

_FPRS = (1e-3, 1e-2, 1e-1)
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


def read_scores(path):
    """(scores, member) from an .npz with arrays `score` and `member`,
    or a .csv with columns of these names.

    In a .csv small and capital letters are the same, columns are separated by commas, semicolons or
    tabs, other columns are left out, and numbers have a decimal point.

    Raises: ValueError naming file, line and value; OSError where the file cannot be read.
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        if path.exists() and not zipfile.is_zipfile(path):
            raise ValueError(f"{path} is not an .npz file")
        with np.load(path) as arrays:
            missing = [name for name in ("score", "member") if name not in arrays]
            if missing:
                raise ValueError(
                    f"{path} has no array {missing[0]!r}, but {', '.join(arrays.files) or 'none'}"
                )
            return arrays["score"], arrays["member"]
    if path.suffix.lower() == ".csv":
        try:
            text = path.read_bytes().decode("utf-8-sig")  # spreadsheets write a byte order mark
            return _from_text(path, text)
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"{path} is not a CSV file: {error}") from None
    raise ValueError(f"{path} is neither .npz nor .csv")


def _from_text(path, text):
    header = next((line for line in text.splitlines() if line.strip()), "")
    between = max(",;\t", key=header.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=between)
    names = [
        name.strip().lower() for name in next((row for row in rows if any(map(str.strip, row))), [])
    ]
    for name in ("score", "member"):
        if name not in names:
            raise ValueError(
                f"{path} has no column {name!r}, but {', '.join(filter(None, names)) or 'none'}; "
                "expected a first line score,member"
            )
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns {name!r}")
    places = {name: names.index(name) for name in ("score", "member")}
    scores, member = [], []
    for row in rows:
        if not any(map(str.strip, row)):
            continue
        where = f"{path}, line {rows.line_num}"
        if len(row) != len(names):
            comma = (
                "; numbers need a decimal point, as 0.5"
                if between == "," and len(row) > len(names)
                else ""
            )
            raise ValueError(f"{where}: {len(row)} values for {len(names)} columns{comma}")
        cells = {name: row[place].strip() for name, place in places.items()}
        scores.append(_score(where, cells["score"]))
        truth = _TRUTH.get(cells["member"].lower())
        if truth is None:
            raise ValueError(
                f"{where}: member = {cells['member']!r}; accepted: {', '.join(_TRUTH)}"
            )
        member.append(truth)
    return np.array(scores), np.array(member, bool)


def _score(where, cell):
    try:
        return float(cell)
    except ValueError:
        comma = (
            "; expected a decimal point, as 0.5"
            if re.fullmatch(r"[-+]?[\d.]*,\d+([eE][-+]?\d+)?", cell)
            else ""
        )
        raise ValueError(f"{where}: score = {cell!r} is not a number{comma}") from None


def claims_from(described=None, mu=None, epsilon=None, delta=None):
    """([(name, symmetric curve)], delta) of what is claimed, the guarantee first.

    Args:
        described: ("mechanism", "dp_sgd" or "pipeline", its settings, delta or None), as flags or a
            file describe a mechanism. mu, epsilon: other claims.
        delta: wins over that of the description; 1e-5 where neither says.

    Raises: ValueError for more than one claim, and for one that is no number in [0, inf).
    """
    if sum(value is not None for value in (described, mu, epsilon)) > 1:
        raise ValueError("give one claim: a mechanism, --mu or --epsilon")
    table, settings, own_delta = (None, {}, None) if described is None else described
    delta = next(value for value in (delta, own_delta, 1e-5) if value is not None)
    if mu is not None:
        check_number("mu", mu, NONNEGATIVE)
        return [(f"claimed, μ = {mu:g}", worst_case.gaussian(mu).symmetric())], delta
    if epsilon is not None:
        check_number("epsilon", epsilon, NONNEGATIVE)
        name = f"claimed, ε = {epsilon:g} at δ = {delta:g}"
        return [(name, worst_case.approximate_dp(epsilon, delta).symmetric())], delta
    if described is None:
        return [], delta
    mechanism = described_by(table, settings, delta)
    return [(f"claimed, {name}", curve) for name, _, curve in mechanism.adversaries()], delta


def audit_report(scores, member, claims=(), delta=1e-5, confidence=0.95):
    """A dictionary of what the scores prove, for JSON and the table.

    Args: scores, member, confidence: as for `jaxpriv.auditing.audit`;
        claims: from `claims_from`; delta: in (0, 1).
    """
    found = auditing.audit(scores, member, confidence)
    rates = {fpr: auditing.tpr_at_fpr(scores, member, fpr, confidence) for fpr in _FPRS}
    return {"scores": len(scores), "members": found.members, "non_members": found.others,
            "confidence": confidence, "delta": delta, "auc": auditing.auc(scores, member),
            "advantage": auditing.advantage(scores, member), "epsilon_lower": found.epsilon(delta),
            "mu_lower": found.mu(), "gaussian_epsilon_lower": found.gaussian_epsilon(delta),
            "tpr_at_fpr": {f"{fpr:g}": rate._asdict() for fpr, rate in rates.items()},
            "claims": [{"claim": name, **vars(found.violation(curve))} for name, curve in claims]}


def render_audit(report):
    """The `Sheet` of an audit report."""
    from jaxpriv.report.terminal import Sheet

    sure = f"{100 * report['confidence']:.6g}%"
    rows = [["AUC", f"{report['auc']:.4f}", ""], ["advantage", f"{report['advantage']:.4f}", ""]]
    for fpr, rate in report["tpr_at_fpr"].items():
        limits = (
            f"[{rate['lower']:.4f}, {rate['upper']:.4f}]"
            if rate["resolved"]
            else f"≤ {rate['upper']:.4f}; too few scores"
        )
        rows.append([f"TPR at FPR {fpr}", f"{rate['estimate']:.4f}", limits])
    epsilon = rounded_down(report["epsilon_lower"])
    rows.append([f"ε at δ={report['delta']:g}", "", f"≥ {epsilon}"])
    rows.append(["μ (GDP)", "", f"≥ {rounded_down(report['mu_lower'])}"])
    gaussian = rounded_down(report["gaussian_epsilon_lower"])
    rows.append([f"ε at δ={report['delta']:g} if the curve is Gaussian", "", f"≥ {gaussian}"])
    lines = []
    for claim in report["claims"]:
        said = "VIOLATED" if claim["violated"] else "not refuted"
        power, alpha = rounded_down(claim["power"]), rounded_up(claim["alpha"])
        at = f"power ≥ {power} at type I error ≤ {alpha}"
        test = f" ({claim['direction']} test: {at}, where it allows {claim['allowed']:.4g})"
        lines.append(f"{claim['claim']}: {said}{test if claim['violated'] else ''}.")
    lines.append(
        f"All lower bounds and verdicts hold together with {sure} confidence; each TPR interval "
        "on its own. An attack that finds nothing proves no privacy."
    )
    title = f"Privacy audit of {report['members']} members and {report['non_members']} others"
    return Sheet(title, ["quantity", "estimate", f"with {sure} confidence"], rows, lines)
