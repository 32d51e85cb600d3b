"""The certificate of a training: every threat model beside the worst case, what an audit measured,
in JSON and as a page.
"""

import base64
import dataclasses
import html
import io
import json
import math
import os
from pathlib import Path

import jax
import numpy as np

from jaxpriv import auditing
from jaxpriv._checks import OPEN_UNIT, check_number
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.attacks.gradients import taken_apart
from jaxpriv.random import EDGE
from jaxpriv.report.certificate import gains_nothing, notes_of, vacuous
from jaxpriv.report.plots import draw_training
from jaxpriv.report.shuffled import if_shuffled
from jaxpriv.report.table import READING, render
from jaxpriv.report.terminal import Line
from jaxpriv.report.training_rows import NAMES, noise_delta, rows_of
from jaxpriv.training.plan import holds

NOT_PRIVATE = (
    "NOT PRIVATE: the noise came from a seed, which others can guess and then take the noise "
    "off. This certificate says what the same run without a seed would guarantee."
)
FURTHER = (
    "Only the worst case is a differential privacy guarantee. It covers the model, every release "
    "on the way to it and the ledger; not the settings, if they were chosen by looking at the "
    "data, and not the data set's size.",
    "Numbers on held-out records are computed on those records, which no guarantee covers. "
    "Diagnostics, where they were written, and canaries.npz are not private.",
    "Noise comes from the Threefry generator with 64 bits of key: the guarantee is computational.",
)


def of_noise(added, epsilon):
    """What is said of the drawn numbers' law; added: `Plan.noise_delta` at epsilon."""
    return (
        f"Normal numbers are drawn right to rounding up to {EDGE:.1f} standard deviations. What "
        "may differ beyond is part of every delta, epsilon, advantage and TPR here (of delta at "
        f"ε = {_number(epsilon)}: {rounded_up(added, 2)}), not of μ. That these numbers, and "
        "sums with them, are rounded to a grid (Mironov 2012) is not counted."
    )


def certify_training(
    trained, folder, *, canaries="dirac", scores=None, confidence=0.95, settings=None
):
    """Audit a training by its canaries, if it has any, and write certificate.json,
    certificate.html and model.npz.

    Args:
        trained: what `DPTrainer.fit` returned. folder: where to write, made if absent.
        canaries: what they are, in a word. scores: `Float[Array, "candidates"]`, higher for those
            that seem to be in the data; those of Dirac canaries unless given.
        confidence: of the audit, in (0, 1). settings: anything JSON holds, to be shown with it.

    Returns: the certificate, as a dictionary of plain numbers and sentences.
    Guarantee: epsilon, mu_at_slack, advantage and tpr_at_fpr of the worst case are upper bounds
        after every step that may have been released. Raises: ValueError for confidence outside its
        range, OSError where a file can't be written.

        >>> import tempfile
        >>> import jax.numpy as jnp, numpy as np, optax
        >>> from jaxpriv.training import DPTrainer, Privacy
        >>> x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
        >>> trainer = DPTrainer(lambda w, row, key: jnp.sum((w - row) ** 2), jnp.zeros(2),
        ...                     optax.sgd(0.1), Privacy(mu=1.0), batch_size=200, steps=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     certificate = certify_training(trainer.fit(x, canaries=2), folder)
        >>> certificate["adversaries"][0]["adversary"], certificate["private"]
        ('worst case', True)
    """
    check_number("confidence", confidence, OPEN_UNIT)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "model.npz", **_arrays(trained.model))
    audit = _audit(trained, canaries, scores, confidence, folder)
    certificate, profiles = training_certificate(trained, audit, settings)
    write_pages(certificate, profiles, trained.history, folder)
    return certificate


def _arrays(model):
    """{name: array} of a model's parameters, in float32 at least:
    files of arrays know no bfloat16.
    """
    found: dict = {}
    for path, leaf in jax.tree.leaves_with_path(taken_apart(model)[0]):
        name = (
            jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value")
            or "parameters"
        )
        found[name] = np.asarray(
            leaf, np.promote_types(np.float32, leaf.dtype) if leaf.dtype.kind == "f" else np.float32
        )
    return found


def _audit(trained, kind, scores, confidence, folder):
    """What the canaries prove, or None with fewer than two of them in the data, or out of it."""
    members, scores = trained.canary_members, trained.canary_scores if scores is None else scores
    if min(np.sum(members), np.sum(~members)) < 2:
        return None
    np.savez(folder / "canaries.npz", score=scores, member=members)
    found = auditing.one_run(scores, members, trained.plan.delta, confidence=confidence)
    return {"canaries": len(members), "kind": kind, "confidence": confidence,
            "epsilon_lower": found.epsilon, "guesses": found.guesses, "correct": found.correct,
            "violated": bool(found.epsilon > trained.epsilon)}


def training_certificate(trained, audit, settings):
    """({everything a certificate says}, [(name, CertifiedProfile)]) of a `Trained`,
    the worst case first.
    """
    plan = trained.plan
    rows, profiles = rows_of(plan, trained.spent)
    epsilon, added = rows[0]["epsilon"], noise_delta(plan, trained.spent, rows)
    certificate = {
        "description": plan.describe(), "mechanism": plan.settings(), "delta": plan.delta,
        "noise_delta": added, "target": str(trained.privacy),
        "private": trained.private, "steps_run": trained.steps, "steps_counted": trained.spent,
        "adjacency": plan.adjacency, "sampling": plan.sampling, "adversaries": rows, "audit": audit,
        "notes": _notes(rows, plan, trained.privacy),
        "if_shuffled": if_shuffled(
            plan.noise_multipliers, plan.sampling_rate, trained.spent, epsilon, plan.delta,
            lambda epsilon: plan.noise_delta(epsilon, trained.spent),
        ),
        "held_out": trained.history[-1] if trained.history else {},
        "assumptions": [*([] if trained.private else [NOT_PRIVATE]), *FURTHER,
                        of_noise(added, epsilon)], "settings": settings,
    }
    return certificate, profiles


def _notes(rows, plan, privacy):
    """Those on the rows, and on the target, which say the same at times: then once."""
    notes = target_notes(plan, privacy, rows[0]["epsilon"])
    said = any("vacuous" in note for note in notes)
    return notes + [note for note in notes_of(rows, plan.delta) if not (said and "vacuous" in note)]


def target_notes(plan, privacy, epsilon):
    """What a target in a weaker threat model has to be told: that it gains nothing, or what it
    leaves of the worst case.

    Args: epsilon: the worst case's at plan.delta, an upper bound, or None.
    """
    if privacy.threat_model == "worst_case":
        return []
    name = NAMES[privacy.threat_model]
    met = holds(plan, dataclasses.replace(privacy, threat_model="worst_case"))
    return [gains_nothing(name)] * met + vacuous(epsilon, plan.delta, name)


def write_pages(certificate, profiles, history, folder):
    """certificate.json and certificate.html, each whole or not there;
    the page needs no other file.
    """
    picture = io.BytesIO()
    draw_training(profiles, history, certificate["delta"], certificate["audit"], picture)
    _replace(Path(folder) / "certificate.json", json.dumps(certificate, indent=2) + "\n")
    _replace(
        Path(folder) / "certificate.html",
        page(certificate, base64.b64encode(picture.getvalue()).decode()),
    )


def _replace(path, text):
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2430; max-width: 62rem; \
margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.lead { font-size: 1.15rem; } \
.warning { background: #fdecea; border-left: 4px solid #c0392b; padding: .6rem 1rem; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; } \
th, td { padding: .45rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } \
thead th { border-bottom: 2px solid #1c2430; vertical-align: bottom; }
tbody tr { border-bottom: 1px solid #d8dde4; } tbody tr.guarantee { font-weight: 600; }
img { width: 100%; height: auto; } ul { padding-left: 1.2rem; } \
.small { color: #566173; font-size: .9rem; }
dt { font-weight: 600; margin-top: .5rem; } dd { margin-left: 0; }
"""


def page(certificate, picture):
    """The certificate as one HTML page; `picture`: a PNG in base64."""
    rows, audit = certificate["adversaries"], certificate["audit"]
    delta = f"{certificate['delta']:g}"
    rates = list(rows[0]["tpr_at_fpr"])
    headings = ["adversary", f"ε at δ = {delta}", f"μ at slack {delta}", "advantage",
                *(f"TPR at FPR {rate}" for rate in rates)]
    head = "".join(f"<th>{name}</th>" for name in headings)
    body = "".join(_row(row, number == 0) for number, row in enumerate(rows))
    warning = "" if certificate["private"] else f'<p class="warning">{html.escape(NOT_PRIVATE)}</p>'
    facts = "".join(
        f"<dt>{name}</dt><dd>{html.escape(text)}</dd>"
        for name, text in (
            ("Mechanism", certificate["description"]),
            ("Adjacency", certificate["adjacency"]),
            ("Sampling", certificate["sampling"]),
            ("Target", certificate["target"]),
            (
                "Ledger",
                f"{certificate['steps_counted']} steps counted, {certificate['steps_run']} run",
            ),
            ("Held-out records", _told(certificate["held_out"])),
            ("Audit", audit_sentence(audit, certificate)),
        )
    )
    notes = "".join(f"<p>Note: {html.escape(text)}</p>" for text in certificate.get("notes", ()))
    shuffled = certificate.get("if_shuffled")
    notes += f"<p>{html.escape(shuffled['sentence'])}</p>" if shuffled else ""
    assumed = "".join(
        f"<li><b>{row['adversary']}</b>: {html.escape(row['assumption'])}</li>" for row in rows
    )
    further = "".join(f"<li>{html.escape(text)}</li>" for text in certificate["assumptions"])
    settings = html.escape(json.dumps(certificate["settings"], indent=2))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">\
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Privacy certificate</title><style>{_STYLE}</style></head><body>
<h1>Privacy certificate</h1>
<p class="lead">This training is (ε, δ)-differentially private \
with ε ≤ {_number(rows[0]['epsilon'])} at δ = {delta}, for adding
or removing one record.</p>{warning}
<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>
{notes}
<p class="small">{READING} α is the type I error (false positive rate), β the type II error.</p>
<img alt="trade-off curves, privacy profiles and epsilon over the steps" \
src="data:image/png;base64,{picture}">
<h2>What was run</h2><dl>{facts}</dl>
<h2>Adversaries</h2><ul>{assumed}</ul>
<h2>What is assumed</h2><ul>{further}</ul>
<h2>Settings</h2><pre class="small">{settings}</pre>
</body></html>
"""


def audit_sentence(audit, certificate):
    """What the canaries of the run prove, in one sentence."""
    if audit is None:
        return "none: fewer than two canaries in the data, or out of it"
    said = "VIOLATED: more than the worst case allows" if audit["violated"] else "not refuted"
    return (
        f"{audit['canaries']} {audit['kind']} canaries, {audit['correct']} of {audit['guesses']} "
        f"guesses right: ε ≥ {rounded_down(audit['epsilon_lower'])} at δ = "
        f"{certificate['delta']:g} with {audit['confidence']:.0%} confidence; the claim ε ≤ "
        f"{_number(certificate['adversaries'][0]['epsilon'])} is {said}"
    )


def _row(row, guarantee):
    bracket = f"[{rounded_down(row['epsilon_lower'])}, {_number(row['epsilon'])}]"
    cells = [row["adversary"], bracket,
             *map(_number, (row["mu_at_slack"], row["advantage"], *row["tpr_at_fpr"].values()))]
    return (
        f'<tr{" class=guarantee" * guarantee}>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
    )


def _number(value):
    return "∞" if value is None else rounded_up(value)


def _told(numbers):
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items()
                     if name not in ("step", "epsilon", "stop")) or "no evaluation"


def render_training(certificate):
    """The certificate as something `rich` prints."""
    from rich.console import Group

    rows = [
        {**row, "epsilon": math.inf if row["epsilon"] is None else row["epsilon"]}
        for row in certificate["adversaries"]
    ]
    warning = [] if certificate["private"] else [Line(NOT_PRIVATE, "bold red")]
    table = render({**certificate, "adversaries": rows})
    return Group(*warning, table, Line(f"Held-out records: {_told(certificate['held_out'])}."),
                 Line(f"Audit: {audit_sentence(certificate['audit'], certificate)}."))
