"""The certificate of a training: every threat model beside the worst case, what an audit measured,
in JSON and as a page.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxpriv import auditing
from jaxpriv._checks import OPEN_UNIT, check_number
from jaxpriv._types import FilePath, Numbers
from jaxpriv.attacks.gradients import taken_apart
from jaxpriv.bridges import points
from jaxpriv.report.certificate import gains_nothing, notes_of, vacuous
from jaxpriv.report.page import write_certificate
from jaxpriv.report.plain_words import in_plain_words
from jaxpriv.report.profiles import lines_of
from jaxpriv.report.selected import STANDS_ALONE, of_selection
from jaxpriv.report.shuffled import plan_if_shuffled
from jaxpriv.report.table import render
from jaxpriv.report.terminal import Line
from jaxpriv.report.training_rows import NAMES, noise_delta, rows_of
from jaxpriv.report.training_wording import (
    NOT_PRIVATE,
    assumptions_of,
    audit_sentence,
    held_out_sentence,
)
from jaxpriv.training.planning import holds
from jaxpriv.training.trainer import Trained


def certify_training(
    trained: Trained, folder: FilePath, *, canaries: str = "dirac", scores: Numbers | None = None,
    confidence: float = 0.95, settings: Any = None,
) -> dict[str, Any]:
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
    certificate = training_certificate(trained, audit, settings)
    write_certificate(certificate, folder)
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
    correct, guesses, _ = auditing.one_run_guesses(scores, members)
    return {"canaries": len(members), "kind": kind, "confidence": confidence,
            "epsilon_lower": found.epsilon, "guesses": found.guesses, "correct": found.correct,
            "curve_guesses": guesses, "curve_correct": correct}


def against_curve(audit, row, delta):
    """An audit's verdict on the worst case's row: on its epsilon, and on the whole curve that its
    profile says, each with the audit's confidence.
    """
    if audit is None:
        return None
    counts = audit["curve_correct"], audit["curve_guesses"], audit["canaries"]
    curve = points.curve(*zip(*lines_of(row, delta)))
    p_value = auditing.one_run_curve_p_value(curve, *counts)
    more = row["epsilon"] is not None and audit["epsilon_lower"] > row["epsilon"]
    return {**audit, "curve_p_value": p_value,
            "violated": bool(more or p_value < 1 - audit["confidence"])}


def training_certificate(trained, audit, settings):
    """Everything a certificate says of a `Trained`, the worst case first."""
    if trained.selection is not None:
        return _selected(trained, settings)
    plan = trained.plan
    rows = rows_of(plan, trained.spent)
    audit = against_curve(audit, rows[0], plan.delta)
    epsilon, added = rows[0]["epsilon"], noise_delta(plan, trained.spent, rows)
    return {
        "description": plan.describe(), "mechanism": plan.settings(), "delta": plan.delta,
        "noise_delta": added, "target": str(trained.privacy),
        "private": trained.private, "steps_run": trained.steps, "steps_counted": trained.spent,
        "adjacency": plan.adjacency, "sampling": plan.sampling, "adversaries": rows, "audit": audit,
        "in_plain_words": in_plain_words(lines_of(rows[0], plan.delta), plan.protects),
        "notes": _notes(rows, plan, trained.privacy),
        "if_shuffled": plan_if_shuffled(plan, trained.spent, epsilon),
        "held_out": trained.history[-1] if trained.history else {}, "history": trained.history,
        "assumptions": assumptions_of(trained.private, added, epsilon, plan.whole_numbers),
        "settings": settings,
    }


def _selected(trained, settings):
    """That of the best of a random number of trainings: nothing in it holds of one alone."""
    selection = trained.selection
    found = of_selection(selection, trained.plan)
    told = trained.private, found["noise_delta"], found["selection"]["epsilon_of_one"]
    return {
        **found, "delta": selection.delta, "target": f"{trained.privacy}, of each training",
        "private": trained.private, "steps_run": trained.steps, "steps_counted": trained.spent,
        "audit": None, "held_out": trained.history[-1] if trained.history else {},
        "notes": [STANDS_ALONE, *vacuous(found["adversaries"][0]["epsilon"], selection.delta)],
        "history": trained.history, "settings": settings,
        "assumptions": assumptions_of(*told, trained.plan.whole_numbers),
    }


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


def render_training(certificate):
    """The certificate as something `rich` prints."""
    from rich.console import Group

    rows = [
        {**row, "epsilon": math.inf if row["epsilon"] is None else row["epsilon"]}
        for row in certificate["adversaries"]
    ]
    warning = [] if certificate["private"] else [Line(NOT_PRIVATE, "bold red")]
    table = render({**certificate, "adversaries": rows})
    held_out = held_out_sentence(certificate["held_out"])
    selected = [Line(each["sentence"]) for each in (certificate.get("selection"),) if each]
    return Group(*warning, table, *selected, Line(f"Held-out records: {held_out}."),
                 Line(f"Audit: {audit_sentence(certificate['audit'], certificate)}."))
