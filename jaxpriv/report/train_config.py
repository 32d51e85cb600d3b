"""The TOML file of `jaxpriv train`: every unknown,
missing or impossible setting is one clear error.
"""

from jaxpriv._checks import OPEN_UNIT, POSITIVE, Domain, check_number, check_whole
from jaxpriv.report.toml import toml_content
from jaxpriv.training.models import MODELS
from jaxpriv.training.plan import THREAT_MODELS
from jaxpriv.training.sampling import SAMPLERS

NUMBER, WHOLE, TEXT = "a number", "a whole number", "a text"
FLAG, LIST = "true or false", "a list of numbers"
DATASETS = ("digits", "diabetes", "fashion_mnist", "cifar10", "adult")
OPTIMIZERS = ("sgd", "adam")
NOISES = ("independent", "discrete", "banded", "buffered")
CANARIES = ("dirac", "mislabelled", "blank")
_CHOICES = {("data", "name"): DATASETS, ("model", "name"): tuple(MODELS),
            ("optimizer", "name"): OPTIMIZERS, ("privacy", "threat_model"): THREAT_MODELS,
            ("audit", "kind"): CANARIES, ("privacy", "noise"): NOISES,
            ("privacy", "sampler"): tuple(SAMPLERS)}
_RANGES: dict = {"seed": (0, 2**63), "canaries": (0,), "largest_batch": (1,), "cycle": (1,),
                 "width": (1, 10_000), "learning_rate": POSITIVE,
                 "momentum": Domain(0.0, 1.0, "[0, 1)", open_high=True), "confidence": OPEN_UNIT}
# table: {setting: (what it is, value if it is not there)}; REQUIRED has no such value
REQUIRED = object()
TABLES: dict = {
    "data": {"name": (TEXT, REQUIRED), "folder": (TEXT, None)},
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
        "noise_schedule": (LIST, None), "noise": (TEXT, "independent"), "sampler": (TEXT, None),
        "largest_batch": (WHOLE, None), "cycle": (WHOLE, None),
    },
    "audit": {"canaries": (WHOLE, 0), "kind": (TEXT, "dirac"), "confidence": (NUMBER, 0.95)},
    "run": {
        "seed": (WHOLE, None), "microbatch": (WHOLE, None), "checkpoint_every": (WHOLE, None),
        "evaluate_every": (WHOLE, None), "record_releases": (FLAG, False),
        "diagnostics": (FLAG, False),
    },
}


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
    config: dict = {}
    for table, settings in TABLES.items():
        given = content.get(table, {})
        unknown = [name for name in given if name not in settings]
        if unknown:
            raise ValueError(
                f"{path}: unknown setting {unknown[0]!r} in [{table}]; "
                f"accepted: {', '.join(settings)}"
            )
        config[table] = {}
        for name, (kind, default) in settings.items():
            if name not in given and default is REQUIRED:
                raise ValueError(f"{path}: {name} is missing in [{table}]")
            value = given.get(name, default)
            if name == "threat_model" and isinstance(value, str):
                value = value.replace("-", "_")  # as `calibrate --adversary` spells it
            if name in given:
                _check(path, table, name, kind, value)
            config[table][name] = value
    return config


def _check(path, table, name, kind, value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    fits = {
        NUMBER: number,
        WHOLE: number and isinstance(value, int),
        TEXT: isinstance(value, str),
        FLAG: isinstance(value, bool),
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
