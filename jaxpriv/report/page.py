"""The page of a certificate, which a data-protection officer reads in a minute: what it means in
plain words, the numbers, what is assumed; then, folded away, the technical part.

It needs no script, no network and no other file, and forbids them to itself.
"""

import html
import json
import os
from pathlib import Path

from jaxpriv._rounding import rounded_down, shown
from jaxpriv.report.certificate import VACUOUS
from jaxpriv.report.digest import with_digest
from jaxpriv.report.figures import history_figures, people, profile_figure, trade_off_figure
from jaxpriv.report.model_card import guarantee, model_card
from jaxpriv.report.page_style import STYLE
from jaxpriv.report.table import READING
from jaxpriv.report.training_wording import NOT_PRIVATE, audit_sentence, held_out_sentence


def write_certificate(certificate, folder):
    """certificate.json, certificate.md (the block for a model card) and certificate.html, each
    whole or not there.

    Args: certificate: what `certify` or `certify_training` returns. folder: that is there.
    Raises: OSError where a file can't be written.
    """
    folder = Path(folder)
    _replace(folder / "certificate.json", json.dumps(with_digest(certificate), indent=2) + "\n")
    _replace(folder / "certificate.md", model_card(certificate))
    _replace(folder / "certificate.html", page(certificate))


def _replace(path, text):
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def page(certificate):
    """The certificate as one HTML page; every number on it is the certificate's, or follows."""
    plain, trained = certificate["in_plain_words"], "audit" in certificate
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">\
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'">\
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Privacy certificate</title><style>{STYLE}</style></head><body><main>
<h1>Privacy certificate</h1><p class="of">{_text(certificate['description'])}</p>
{_warnings(certificate)}
<section class="plain"><p>{_text(plain['sentence'])}</p>{people(plain)}
<p>{_text(plain['reconstruction'])}</p><p class="small">{_text(plain['holds'])}</p></section>
<h2>The numbers</h2>
<p>This {'training' if trained else 'mechanism'} is {_text(guarantee(certificate))}.\
{_selected(certificate)}</p>
{_table(certificate)}
{_notes(certificate)}
<h2>What is assumed</h2>
<ul>{''.join(f'<li>{line}</li>' for line in _assumed(certificate))}</ul>
<details><summary>Technical part: curves, reading the numbers, settings</summary>
{_technical(certificate)}</details>
<details><summary>To paste into a model card (Markdown)</summary>
<pre>{_text(model_card(certificate))}</pre></details>
<p class="small">Made by jaxpriv. <code>jaxpriv verify certificate.json</code> computes its bounds \
again.</p>
</main></body></html>
"""


def _text(text):
    return html.escape(str(text), quote=False)


def _warnings(certificate):
    found = [] if certificate.get("private", True) else [NOT_PRIVATE]
    found += [note for note in certificate["notes"] if _is_warning(note)]
    epsilon = certificate["adversaries"][0]["epsilon"]
    if epsilon is None or epsilon > VACUOUS:
        found.append("What is said below of weaker attackers is no guarantee either.")
    audit = certificate.get("audit")
    if audit and audit["violated"]:
        found.append(f"Audit: {audit_sentence(audit, certificate)}.")
    lines = "".join(f"<p>{_noted(text)}</p>" for text in found)
    return f'<div class="warning" role="note"><b>Warning</b>{lines}</div>' if found else ""


def _selected(certificate):
    """What a selection cost, where there was one."""
    if "selection" not in certificate:
        return ""
    return f" {_text(certificate['selection']['sentence'])}"


def _is_warning(note):
    return "vacuous" in note


def _noted(text):
    return _text(f"Note: {text}" if _is_warning(text) else text)


def _table(certificate):
    worst, *others = certificate["adversaries"]
    delta = f"{certificate['delta']:g}"
    headings = ["attacker", f"ε at δ = {delta}", f"μ at slack {delta}", "advantage",
                *(f"TPR at FPR {rate}" for rate in worst["tpr_at_fpr"])]  # fmt: skip
    head = "".join(f'<th scope="col">{_unbroken(name, delta)}</th>' for name in headings)
    body = _class("guarantee", "GUARANTEE: holds against every attacker, given what is assumed "
                  "below", [worst], headings)  # fmt: skip
    if others:
        body += _class("weaker", "NO GUARANTEE: what weaker attackers can do, as weak as assumed "
                       "below", others, headings)  # fmt: skip
    return f"<table><thead><tr>{head}</tr></thead>{body}</table>"


def _unbroken(heading, number):
    return heading.replace(number, f"<span>{number}</span>")


def _class(name, title, rows, headings):
    lines = "".join(_row(row, headings) for row in rows)
    return (
        f'<tbody class="{name}"><tr class="class"><th scope="rowgroup" colspan="{len(headings)}">'
        f"{title}</th></tr>{lines}</tbody>"
    )


def _row(row, headings):
    bracket = f"[{shown(row['epsilon_lower'], rounded_down)}, {shown(row['epsilon'])}]"
    numbers = (row["mu_at_slack"], row["advantage"], *row["tpr_at_fpr"].values())
    cells = [row["adversary"], bracket, *map(shown, numbers)]
    return "<tr>" + "".join(
        f'<td data-name="{name}">{_text(cell)}</td>' for name, cell in zip(headings, cells)
    ) + "</tr>"


def _notes(certificate):
    notes = [note for note in certificate["notes"] if not _is_warning(note)]
    lines = [f"<p>Note: {_text(note)}</p>" for note in notes]
    if "audit" in certificate:
        told = audit_sentence(certificate["audit"], certificate)
        lines.append(f"<p>Audit of this run: {_text(told)}.</p>")
    return "".join(lines)


def _assumed(certificate):
    """Sentences, as HTML."""
    lines = [f"<b>Protected</b>: {_text(certificate['adjacency'])}.",
             f"<b>Sampling</b>: {_text(certificate['sampling'])}."]  # fmt: skip
    if certificate.get("if_shuffled"):
        lines[-1] += f" {_text(certificate['if_shuffled']['sentence'])}"
    lines += [f"<b>{_text(row['adversary'])}</b>: {_text(row['assumption'])}"
              for row in certificate["adversaries"]]  # fmt: skip
    return lines + [_text(text) for text in certificate.get("assumptions", ())]


def _technical(certificate):
    rows, delta = certificate["adversaries"], certificate["delta"]
    audit = certificate.get("audit")
    measured = audit["epsilon_lower"] if audit else None
    facts = [("Reading", f"{READING} α is the type I error (false positive rate), β the type II "
              "error; TPR and FPR are true and false positive rates of whoever tells members of "
              "the data from others, advantage is the largest TPR − FPR.")]  # fmt: skip
    if "steps_counted" in certificate:
        facts += [("Target", certificate["target"]),
                  ("Ledger", f"{certificate['steps_counted']} steps counted, "
                   f"{certificate['steps_run']} run"),
                  ("Held-out records", held_out_sentence(certificate["held_out"]))]  # fmt: skip
    told = "".join(f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in facts)
    names = ("mechanism", "selection")
    settings = {name: certificate[name] for name in names if name in certificate}
    if certificate.get("settings") is not None:
        settings["settings"] = certificate["settings"]
    charts = trade_off_figure(rows, delta) + profile_figure(rows, delta, measured)
    charts += history_figures(certificate.get("history", ()), delta)
    return (
        '<p class="small">Rest a pointer on a curve for its numbers: upper bounds of δ, lower '
        f'bounds of β.</p><div class="charts">{charts}</div>'
        f"<dl>{told}</dl><pre>{_text(json.dumps(settings, indent=2))}</pre>"
    )
