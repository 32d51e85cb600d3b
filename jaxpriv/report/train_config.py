"""The TOML file of `jaxpriv train`: every unknown,
missing or impossible setting is one clear error.
"""

import copy
import itertools

from jaxpriv._checks import OPEN_UNIT, POSITIVE, SCALE, Domain, check_number, check_whole
from jaxpriv.report.toml import toml_content
from jaxpriv.training.models import MODELS
from jaxpriv.training.plan import THREAT_MODELS
from jaxpriv.training.sampling import SAMPLERS
from jaxpriv.training.selection import LAWS, tries_of

NUMBER, WHOLE, TEXT = "a number", "a whole number", "a text"
FLAG, LIST = "true or false", "a list of numbers"
LISTS = "a table of lists"
DATASETS = ("digits", "diabetes", "fashion_mnist", "cifar10", "adult")
OPTIMIZERS = ("sgd", "adam")
NOISES = ("independent", "discrete", "banded", "buffered")
CANARIES = ("dirac", "mislabelled", "blank")
_CHOICES = {("data", "name"): DATASETS, ("model", "name"): tuple(MODELS),
            ("optimizer", "name"): OPTIMIZERS, ("privacy", "threat_model"): THREAT_MODELS,
            ("audit", "kind"): CANARIES, ("privacy", "noise"): NOISES,
            ("privacy", "sampler"): tuple(SAMPLERS), ("selection", "tries"): LAWS}
_RANGES: dict = {"seed": (0, 2**63), "canaries": (0,), "largest_batch": (1,), "cycle": (1,),
                 "records_per_user": (2, 100),
                 "width": (1, 10_000), "learning_rate": POSITIVE, "clip_norm": SCALE,
                 "momentum": Domain(0.0, 1.0, "[0, 1)", open_high=True), "confidence": OPEN_UNIT}
# table: {setting: (what it is, value if it is not there)}; REQUIRED has no such value
REQUIRED = object()
TABLES: dict = {
    "data": {"name": (TEXT, REQUIRED), "folder": (TEXT, None), "users": (TEXT, None)},
    "model": {"name": (TEXT, REQUIRED), "width": (WHOLE, 16)},
    "optimizer": {
        "name": (TEXT, "sgd"),
        "learning_rate": (NUMBER, REQUIRED),
        "momentum": (NUMBER, 0.0),
    },
    "privacy": {
        "threat_model": (TEXT, "worst_case"), "epsilon": (NUMBER, None), "delta": (NUMBER, 1e-5),
        "mu": (NUMBER, None), "advantage": (NUMBER, None), "fpr": (NUMBER, None),
        "tpr": (NUMBER, None), "clip_norm": (NUMBER, 1.0), "batch_size": (NUMBER, None),
        "epochs": (NUMBER, None), "steps": (WHOLE, None), "noise_multiplier": (NUMBER, None),
        "noise_schedule": (LIST, None), "noise": (TEXT, None), "sampler": (TEXT, None),
        "largest_batch": (WHOLE, None), "cycle": (WHOLE, None),
        "records_per_user": (WHOLE, None),
    },
    "audit": {"canaries": (WHOLE, 0), "kind": (TEXT, "dirac"), "confidence": (NUMBER, 0.95)},
    "selection": {
        "tries": (TEXT, None), "mean": (NUMBER, None), "eta": (NUMBER, None),
        "candidates": (LISTS, None),
    },
    "run": {
        "seed": (WHOLE, None), "microbatch": (WHOLE, None), "checkpoint_every": (WHOLE, None),
        "evaluate_every": (WHOLE, None), "record_releases": (FLAG, False),
        "diagnostics": (FLAG, False),
    },
}
# what may be tried out, and the table that it is a setting of
CANDIDATES = {"learning_rate": "optimizer", "momentum": "optimizer", "width": "model",
              "clip_norm": "privacy", "batch_size": "privacy", "epochs": "privacy",
              "steps": "privacy"}
_MOST_CANDIDATES = 1000


def read_config(path):
    """{table: {setting: value}} with every setting of every table, None where it is left out.

    Raises: ValueError naming the file, the table and the setting.
    """
    return checked(toml_content(path), path)


def checked(content, path):
    """`content` as `read_config` returns it."""
    for name in content:
        if name not in TABLES or not isinstance(content[name], dict):
            raise ValueError(
                f"{path}: unknown table [{name}]; accepted: "
                f"{', '.join(f'[{table}]' for table in TABLES)}"
            )
        unknown = [each for each in content[name] if each not in TABLES[name]]
        if unknown:
            raise ValueError(
                f"{path}: unknown setting {unknown[0]!r} in [{name}]; "
                f"accepted: {', '.join(TABLES[name])}"
            )
    tried = _tried(content.get("selection", {}))
    config: dict = {}
    for table, settings in TABLES.items():
        given = content.get(table, {})
        config[table] = {}
        for name, (kind, default) in settings.items():
            if name in given and CANDIDATES.get(name) == table and name in tried:
                raise ValueError(
                    f"{path}: {name} is in [{table}] and in [selection.candidates]; accepted: one"
                )
            if name not in given and default is REQUIRED and name not in tried:
                raise ValueError(f"{path}: {name} is missing in [{table}]")
            value = given.get(name, None if default is REQUIRED else default)
            if name == "threat_model" and isinstance(value, str):
                value = value.replace("-", "_")  # as `calibrate --adversary` spells it
            if name in given:
                _check(path, table, name, kind, value)
            config[table][name] = value
    _check_users(path, config)
    _check_selection(path, config)
    return config


def _tried(selection):
    """The names of settings that candidates differ in."""
    found = selection.get("candidates") if isinstance(selection, dict) else None
    return set(found) if isinstance(found, dict) else set()


def _check_users(path, config):
    """A file of users and a bound on their records go together."""
    users, most = config["data"]["users"], config["privacy"]["records_per_user"]
    if (users is None) != (most is None):
        given, other = ("users in [data]", "records_per_user in [privacy]")[:: 1 if users else -1]
        raise ValueError(f"{path}: {given} goes with {other}")
    if users is not None and config["audit"]["canaries"] and config["audit"]["kind"] != "dirac":
        raise ValueError(
            f"{path}: kind = {config['audit']['kind']!r} in [audit] with users; accepted: dirac"
        )


def _check_selection(path, config):
    """What goes into a selection, and what a selection has no guarantee of."""
    selection = config["selection"]
    if all(value is None for value in selection.values()):
        return
    for name in ("tries", "mean", "candidates"):
        if selection[name] is None:
            raise ValueError(f"{path}: {name} is missing in [selection]")
    try:
        tries_of(selection["tries"], selection["mean"], selection["eta"])
    except ValueError as error:
        raise ValueError(f"{path}: {error} in [selection]") from None
    for name, values in selection["candidates"].items():
        if name not in CANDIDATES:
            raise ValueError(
                f"{path}: unknown setting {name!r} in [selection.candidates]; accepted: "
                f"{', '.join(CANDIDATES)}"
            )
        if not isinstance(values, list) or not values:
            raise ValueError(
                f"{path}: {name} = {values!r} in [selection.candidates] is not a list of values"
            )
        for value in values:
            _check(path, "selection.candidates", name, TABLES[CANDIDATES[name]][name][0], value)
    check_whole(f"{path}: [selection] candidates", len(candidates_of(config)), 1, _MOST_CANDIDATES)
    privacy = config["privacy"]
    if privacy["epsilon"] is None or privacy["threat_model"] != "worst_case":
        raise ValueError(
            f"{path}: a selection is certified against the worst case; accepted: a target epsilon "
            "in [privacy]"
        )
    for table, name in (("audit", "canaries"), ("run", "record_releases"), ("run", "diagnostics")):
        if config[table][name]:
            raise ValueError(
                f"{path}: {name} = {config[table][name]!r} in [{table}] is of one training, not of "
                "the best of several; accepted: none with [selection]"
            )


def candidates_of(config):
    """[{setting: value}]: every combination of what [selection.candidates] lists."""
    lists = config["selection"]["candidates"]
    return [dict(zip(lists, values)) for values in itertools.product(*lists.values())]


def config_of(config, candidate, epsilon):
    """The configuration of one training of a selection. epsilon: its target."""
    found = copy.deepcopy(config)
    found["privacy"]["epsilon"] = epsilon
    for name, value in candidate.items():
        found[CANDIDATES[name]][name] = value
    return found


def _check(path, table, name, kind, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    fits = {
        NUMBER: number,
        WHOLE: number and isinstance(value, int),
        TEXT: isinstance(value, str),
        FLAG: isinstance(value, bool),
        LISTS: isinstance(value, dict) and value,
        LIST: isinstance(value, list)
        and value
        and all(type(v) in (int, float) and 0 < v < 1e300 for v in value),
    }[kind]
    if not fits:
        raise ValueError(
            f"{path}: {name} = {value!r} in [{table}] is not "
            f"{kind}{' above 0' if kind == LIST else ''}"
        )
    choices = _CHOICES.get((table, name))
    if choices and value not in choices:
        raise ValueError(f"{path}: {name} = {value!r} in [{table}]; accepted: {', '.join(choices)}")
    if kind == WHOLE:
        check_whole(f"{path}: [{table}] {name}", value, *_RANGES.get(name, ()))
    elif name in _RANGES:
        check_number(f"{path}: [{table}] {name}", value, _RANGES[name])
