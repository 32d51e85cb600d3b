"""Does a certificate hold? All that follows from its mechanism, computed again on this machine."""

import json
import math
import re
from pathlib import Path
from typing import Any

from jaxpriv._checks import check_whole
from jaxpriv._types import FilePath
from jaxpriv.report.certificate import Mechanism, certify, gains_nothing
from jaxpriv.report.digest import digest
from jaxpriv.report.dp_sgd import DpSgd
from jaxpriv.report.pipeline import Pipeline
from jaxpriv.report.plain_words import in_plain_words
from jaxpriv.report.profiles import lines_of
from jaxpriv.report.shuffled import plan_if_shuffled
from jaxpriv.report.terminal import Sheet
from jaxpriv.report.training_wording import assumptions_of

_LAST_DIGITS = 1e-9  # relative: other processors and versions round differently
_LOWER = ("epsilon_lower",)  # claimed from below; all other numbers are upper bounds
_SETTINGS = ("batches", "epochs", "people", "took_part", "accused")  # neither
_WORDS = ("description", "adjacency", "sampling", "assumption", "sentence", "holds", "notes",
          "assumptions", "reconstruction")  # fmt: skip
_TABLES = {"tpr_at_fpr": "TPR at FPR", "profile": "delta at epsilon"}
_NUMBERS = (*_LOWER, "epsilon", "mu_at_slack", "advantage", "noise_delta", "right",
            "guessed", "epsilon_of_one")
_QUIET = re.compile("^mechanism|delta at epsilon")
_ASKED = ("delta", "digest", "calibrated", "selection")  # which have checks of their own
_TAKEN = {
    "steps_counted": "how many steps the training's ledger counts",
    "audit": "what the audit measured",
    "history": "what was spent and learned on the way",
    "held_out": "the numbers on held-out records",
    "private": "whether the noise's key was secret",
    "target": "what the training aimed at",
    "steps_run": "how many steps it ran",
    "notes": "its notes",
    "settings": "how it was trained",
}


def read_certificate(path: FilePath) -> dict[str, Any]:
    """The dictionary of a certificate.json.

    Raises: ValueError for a file that holds none, OSError for one that can't be read.
    """
    try:
        found = json.loads(Path(path).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no certificate: {error}") from None
    wanted = {"mechanism": dict, "delta": float, "adversaries": list}
    if not isinstance(found, dict) or not all(
        isinstance(found.get(name), kind) for name, kind in wanted.items()
    ):
        raise ValueError(f"{path} is no certificate: mechanism, delta and adversaries are expected")
    return found


def verify(certificate: dict[str, Any]) -> dict[str, Any]:
    """Every number and sentence of a certificate that follows from its mechanism, beside what this
    machine certifies.

    Args:
        certificate: a dictionary as `certify` or `certify_training` returns it, or its JSON.

    Returns: {"holds": do all?, "checks": [{"where", "claimed", "here", "holds"}], "taken": what was
        not computed again}. An upper bound holds if the one computed here is no larger, a lower one
        if it is no smaller, but for a relative 1e-9; None is infinity. Sentences have to be those
        of this version; the digest of a file, that of its contents: it fails where nothing is
        wrong but something was changed.
    Guarantee: where all checks hold, the numbers are certified for the mechanism that the
        certificate describes. That the mechanism was run as described nobody can compute.
    Raises: ValueError where the mechanism is not one of a certificate, or outside its range.

        >>> from jaxpriv.report import Mechanism, certify
        >>> certificate = certify(Mechanism("laplace", (1.0,), (1.0,)), delta=1e-5)
        >>> verify(certificate)["holds"]
        True
        >>> certificate["adversaries"][0]["epsilon"] = 0.5
        >>> [check["where"] for check in verify(certificate)["checks"] if not check["holds"]]
        ['worst case: epsilon']
    """
    certificate = json.loads(json.dumps(certificate))  # with lists for tuples
    own, settings = json.loads(json.dumps(_again(certificate))), certificate["mechanism"]
    _noted(certificate, own)
    checks = list(_compared("", certificate, own))
    claimed, rows = (_rows_of(table["adversaries"]) for table in (certificate, own))
    for name in dict.fromkeys([*rows, *claimed]):
        said, here = claimed.get(name, []), rows.get(name, [])
        if len(said) == len(here) == 1:
            checks += _compared(f"{name}: ", said[0], here[0])
            checks += _unknown(f"{name}: ", said[0], here[0])
        else:
            checks.append(_check(name, _how_many(said), _how_many(here), False))
    if certificate.get("if_shuffled") or own["if_shuffled"]:
        said, here = certificate.get("if_shuffled") or {}, own["if_shuffled"] or {}
        checks += _compared("if shuffled: ", said, here)
        checks += _unknown("if shuffled: ", said, here)
    if "selection" in own:
        checks += _compared("selection: ", certificate["selection"], own["selection"])
        known = own["mechanism"] in own["selection"]["mechanisms"]
        checks.append(_check("mechanism", "the winner's",
                             "among those" if known else "none of those", known))
    elif "selection" in certificate:
        checks.append(_check("selection", "of several mechanisms", "of a single one", False))
    if "calibrated" in certificate:
        checks += _calibrated(certificate, own)
    plain = certificate.get("in_plain_words")
    checks += _compared("in plain words: ", plain if isinstance(plain, dict) else {},
                        own["in_plain_words"])  # fmt: skip
    checks += [_check(f"mechanism: {name}", settings.get(name), value, settings.get(name) == value)
               for name, value in own["mechanism"].items()]  # fmt: skip
    if "digest" in certificate:  # of a file
        claimed, here = certificate["digest"], digest(certificate)
        checks.append(_check("digest", claimed, here, claimed == here))
    rest = [name for name in certificate if name not in own and name not in _ASKED]
    taken = [told for name, told in _TAKEN.items() if name in rest]
    taken += [f"what it says of {name!r}" for name in rest if name not in _TAKEN]
    return {"holds": all(check["holds"] for check in checks), "checks": checks, "taken": taken}


def _rows_of(table):
    """The rows of each name; what is no row of any has none."""
    named: dict = {}
    for row in table:
        name = row.get("adversary") if isinstance(row, dict) else None
        named.setdefault(str(name), []).append(row)
    return named


def _how_many(rows):
    return f"{len(rows)} rows" if len(rows) != 1 else "a row"


def _unknown(place, claimed, own):
    """A check that fails for each number or sentence that is claimed of nothing."""
    for name in claimed:
        if name not in own and name in {*_WORDS, *_TABLES, *_NUMBERS, *_SETTINGS}:
            yield _check(f"{place}{name}", claimed[name], "nothing", False)


def _calibrated(certificate, own):
    """Checks that what was calibrated is the mechanism's own, and meets what was asked for in
    numbers that a certificate has.
    """
    found = certificate["calibrated"] if isinstance(certificate["calibrated"], dict) else {}
    target, adversary = found.get("target"), found.get("adversary")
    settings = _leaves(own["mechanism"])
    for name, value in found.items():
        if name not in ("target", "adversary", "step"):
            yield _check(f"calibrated: {name}", value, "the mechanism's", value in settings)
    kind = str(adversary).split("-")[0]
    row = next((row for row in own["adversaries"] if row["adversary"].startswith(kind)), None)
    yield _check("calibrated: adversary", adversary, "one of the rows'", row is not None)
    asked = target if isinstance(target, dict) else {}
    if row is not None and asked.get("delta", own["delta"]) == own["delta"]:
        for name in set(asked) & {"epsilon", "advantage"}:
            yield _number(f"calibrated: {name}", asked[name], row[name], False)


def _noted(certificate, own):
    """What `calibrate` notes where the worst case meets a weaker adversary's target as well."""
    note, found = gains_nothing("relaxed"), certificate.get("calibrated")
    if isinstance(found, dict) and note in (certificate.get("notes") or []):
        alike = _calibrated({"calibrated": {**found, "adversary": "worst-case"}}, own)
        if all(check["holds"] for check in alike):
            own["notes"].insert(0, note)


def _leaves(tree):
    """All numbers and words of a table of tables and lists."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list) else [tree]


def _again(certificate):
    """What the mechanism of a certificate leads to here."""
    try:
        made = _mechanism(certificate["mechanism"], certificate["delta"])
        if "steps_counted" in certificate:
            if isinstance(made, Mechanism | DpSgd | Pipeline):
                raise TypeError("no training counts its steps")
            if "selection" in certificate:
                found = _of_selection(made, certificate)
                told = found["noise_delta"], found["selection"]["epsilon_of_one"]
            else:
                found = _of_training(made, certificate["steps_counted"])
                told = found["noise_delta"], found["adversaries"][0]["epsilon"]
            said = assumptions_of(certificate["private"], *told, made.whole_numbers)
            return {**found, "assumptions": said}
        return certify(made, certificate["delta"])
    except (TypeError, KeyError) as error:
        raise ValueError(f"mechanism is none of a certificate: {error}") from None


def _mechanism(settings, delta):
    """The `Mechanism`, `DpSgd`, `Pipeline` or `Plan` whose settings these are."""
    settings = dict(settings)
    if "pipeline" in settings:
        return Pipeline(settings["pipeline"], settings["group"])
    if "noise" in settings:
        sensitivities, scales = (tuple(settings.pop(key)) for key in ("sensitivities", "scales"))
        return Mechanism(**settings, sensitivities=sensitivities, scales=scales)
    steps = settings.pop("steps")
    settings.pop("sampling_rate")
    if "epochs" in settings:
        return DpSgd(**settings)
    from jaxpriv.training import Plan
    from jaxpriv.training.sampling import sampler_of
    from jaxpriv.training.strategies import strategy_of

    for name, made in (("sampler", sampler_of), ("strategy", strategy_of)):
        if name in settings:
            settings[name] = made(settings[name])
    noise = settings.pop("noise_multiplier")
    check_whole("steps", steps)
    noises = tuple(noise) if isinstance(noise, list) else (noise,) * steps
    return Plan(**settings, noise_multipliers=noises, delta=delta)


def _of_training(plan, spent):
    """What a training's certificate says of its plan after so many steps."""
    from jaxpriv.report.training_rows import noise_delta, rows_of

    rows = rows_of(plan, spent)
    return {
        "mechanism": plan.settings(), "description": plan.describe(), "adversaries": rows,
        "adjacency": plan.adjacency, "sampling": plan.sampling,
        "noise_delta": noise_delta(plan, spent, rows),
        "in_plain_words": in_plain_words(lines_of(rows[0], plan.delta), plan.protects),
        "if_shuffled": plan_if_shuffled(plan, spent, rows[0]["epsilon"]),
    }  # fmt: skip


def _of_selection(plan, certificate):
    """What the certificate of a selection says, of all that was selected from."""
    from jaxpriv.report.selected import of_selection, selection_of

    delta, settings = certificate["delta"], certificate["selection"]
    selection = selection_of(settings, lambda each: _mechanism(each, delta))
    return of_selection(selection, plan)


def _compared(place, claimed, own):
    """A check of each number and sentence of a table, tables of numbers within it included."""
    for name, here in own.items():
        said = claimed.get(name)
        if name in _WORDS or name in _SETTINGS:
            yield _check(f"{place}{name}", said, here, said == here)
        elif name in _TABLES:
            claims = said if isinstance(said, dict) else {}
            for at in dict.fromkeys([*here, *claims]):
                yield _number(f"{place}{_TABLES[name]} {at}", claims.get(at, math.nan),
                              here.get(at, math.nan), False)  # fmt: skip
        elif name in _NUMBERS:
            said = claimed.get(name, math.nan)
            yield _number(f"{place}{name}", said, here, name in _LOWER)


def _number(where, said, here, is_lower):
    low, high = _finite(here), _finite(said)
    if is_lower:
        low, high = high, low
    return _check(where, said, here, low <= high * (1 + _LAST_DIGITS))


def _finite(value):
    if value is None:
        return math.inf
    return float(value) if isinstance(value, (int, float)) else math.nan


def _check(where, claimed, here, holds):
    return {"where": where, "claimed": claimed, "here": here, "holds": bool(holds)}


def render_verification(found):
    """What `verify` found, for a terminal: numbers, and sentences where they differ; of settings
    and profiles only what does not hold.
    """
    numbers = [check for check in found["checks"]
               if isinstance(check["here"], (int, float)) or check["here"] is None]
    rows = [[check["where"], _shown(check["claimed"]), _shown(check["here"]),
             "yes" if check["holds"] else "NO"] for check in numbers]  # fmt: skip
    rows = [row for row in rows if not _QUIET.search(row[0]) or row[3] == "NO"]
    lines = [f"{check['where']} is {check['claimed']!r}; here {check['here']!r}."
             for check in found["checks"] if check not in numbers and not check["holds"]]
    if found["taken"]:
        lines.append(f"Not computed again: {'; '.join(found['taken'])}.")
    failed = sum(not check["holds"] for check in found["checks"])
    told = f"{failed} of {len(found['checks'])} checks failed: the certificate does not hold."
    holds = f"All {len(found['checks'])} checks hold, for the mechanism as it is described."
    lines.append(told if failed else holds)
    lines.append("Upper bounds hold if the one computed here is no larger, lower ones if no "
                 "smaller. That the mechanism was run as described is not computed.")  # fmt: skip
    return Sheet("Verification", ["number", "certificate", "here", "holds"], rows, lines)


def _shown(value):
    if value is None:
        return "∞"
    return f"{value:.12g}" if isinstance(value, (int, float)) else str(value)
