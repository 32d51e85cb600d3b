"""A certificate as Markdown, to paste into a model card or a data sheet."""

from jaxpriv._rounding import rounded_up, shown
from jaxpriv.report.training_wording import NOT_PRIVATE, audit_sentence


def guarantee(certificate):
    """(epsilon, delta) of the worst case in words.

    >>> guarantee({"delta": 1e-5, "adversaries": [{"epsilon": 2.9996}]})
    '(ε, δ)-differentially private with ε ≤ 3 at δ = 1e-05'
    """
    epsilon, delta = certificate["adversaries"][0]["epsilon"], certificate["delta"]
    if epsilon is None:
        return f"not (ε, δ)-differentially private for any certified ε at δ = {delta:g}"
    return f"(ε, δ)-differentially private with ε ≤ {rounded_up(epsilon)} at δ = {delta:g}"


def model_card(certificate):
    """The Markdown block of a certificate: its guarantee, first in plain words; weaker adversaries
    as what they are; and how to check it.

    Args: certificate: what `certify` or `certify_training` returns.
    """
    worst, *others = certificate["adversaries"]
    plain = certificate["in_plain_words"]
    rates = list(worst["tpr_at_fpr"])
    lines = ["## Privacy", ""]
    if not certificate.get("private", True):
        lines += [f"**{NOT_PRIVATE}**", ""]
    lines += [f"**{plain['sentence']} {plain['reconstruction']}** {plain['holds']}", "",
              f"- Guarantee: {guarantee(certificate)}. Protected: {certificate['adjacency']}.",
              f"- {certificate['description']}",
              f"- Sampling: {certificate['sampling']}."]  # fmt: skip
    if certificate.get("if_shuffled"):
        lines.append(f"- {certificate['if_shuffled']['sentence']}")
    if "selection" in certificate:
        lines.append(f"- {certificate['selection']['sentence']}")
    lines += [f"- Note: {note}" for note in certificate["notes"]]
    if "audit" in certificate:
        lines.append(f"- Audit: {audit_sentence(certificate['audit'], certificate)}.")
    head = ["adversary", "guarantee?", f"ε at δ = {certificate['delta']:g}", "advantage",
            *(f"TPR at FPR {rate}" for rate in rates)]  # fmt: skip
    lines += ["", _line(head), _line(["---"] * 2 + ["---:"] * (len(head) - 2))]
    for row in (worst, *others):
        numbers = (row["epsilon"], row["advantage"], *row["tpr_at_fpr"].values())
        sure = "yes" if row is worst else "no"
        lines.append(_line([row["adversary"], sure, *map(shown, numbers)]))
    told = [f"- {row['adversary']}: {row['assumption']}" for row in (worst, *others)]
    checked = "Upper bounds, rounded up. `jaxpriv verify certificate.json` computes them again."
    lines += ["", *told, "", checked, ""]
    return "\n".join(lines)


def _line(cells):
    return f"| {' | '.join(cells)} |"
