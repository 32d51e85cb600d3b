"""The one number of a mechanism that is left open, found for a privacy target."""

from functools import cache

from jaxpriv import calibrate
from jaxpriv.accounting.calibrate import Unbracketed
from jaxpriv.accounting.privacy_target import target_of
from jaxpriv.catalogue.noise import SPREAD
from jaxpriv.report.config import mechanism_from, refuse_missing, refuse_unknown, threat_model_of
from jaxpriv.report.dp_sgd import DpSgd
from jaxpriv.report.pipeline import Pipeline

FIND = "find"  # a word that no shell takes for something else
_NOISE = (1e-4, 1e6)
# where each is looked for; more is less private of all but noise
_WHOLE_NOISE = SPREAD.low, SPREAD.high
_REAL = {"noise_multiplier": _NOISE, "sigma": _WHOLE_NOISE, "scale": _WHOLE_NOISE,
         "sampling_rate": (1e-9, 1.0), "mu": (1e-6, 1e4), "ratio": (1e-6, 1e4),
         "epsilon": (1e-6, 1e2)}
_WHOLE = ("steps", "epochs", "times", "records_per_user")
_MOST = 10**7  # of what is counted


def found(table, settings, targets, adversary="worst-case"):
    """(where, value, mechanism): what just meets a target.

    Args:
        table, settings: as `jaxpriv.report.config.read_toml` gives them. Of a [mechanism] `std` or
            `scale` is left out or "find", of [dp_sgd] `noise_multiplier`; of [[pipeline]] one
            argument of one step is "find".
        targets: {"epsilon", "delta"}, {"mu"}, {"advantage"} or {"fpr", "tpr"}.
        adversary: "worst-case", or "relaxed" for the weakest adversary that is known.

    Returns: where: {name: value}, with "step": 1, 2, ... in a pipeline of several; value: a float,
        or the last whole number of steps, epochs, times and records_per_user, at most 10^7;
        mechanism: a `Mechanism`, `DpSgd` or `Pipeline`.
    Guarantee: the target holds by an upper bound that was evaluated at the value that is returned,
        as `jaxpriv.calibrate` says; that no better value meets it is true where privacy is
        monotone in the number.
    Raises: ValueError for a target out of reach, more or less than one open number, an argument
        that is none of those above, and whatever the mechanism refuses.

        >>> table = {"mechanism": "gaussian", "mu": 0.125, "times": "find"}
        >>> found("pipeline", {"steps": [table], "group": 1}, {"mu": 0.51})[0]
        {'times': 16}
    """
    if table == "dp_sgd":
        return _found_dp_sgd(settings, targets, adversary)
    if table == "mechanism":
        return _found_mechanism(settings, targets, adversary)
    return _found_in_pipeline(settings, targets, adversary)


def _row_of(mechanism, adversary):
    """The curve that a target is meant for."""
    rows = mechanism.adversaries()
    if adversary == "relaxed" and len(rows) == 1:
        raise ValueError("no relaxed adversary is known of this mechanism")
    return rows[0 if adversary == "worst-case" else -1][2]


def _without(settings, name):
    """The settings but the open one; ValueError where it is given as a number."""
    if settings.get(name, FIND) != FIND:
        raise ValueError(f"{name} = {settings[name]!r} is what is to be found: leave it out")
    return {key: value for key, value in settings.items() if key != name}


def _found_mechanism(settings, targets, adversary):
    key = "scale" if settings.get("noise") == "laplace" else "std"
    rest = _without(settings, key)
    unit = mechanism_from({**rest, key: 1.0})
    target_of(**targets)
    first = unit.sensitivities[0]

    def make_curve(noise):
        return _row_of(mechanism_from({**rest, key: noise * first}), adversary)

    noise = calibrate(make_curve, **targets, bracket=_NOISE) * first
    return {key: noise}, noise, mechanism_from({**rest, key: noise})


def _found_dp_sgd(settings, targets, adversary):
    rest = _without(settings, "noise_multiplier")
    refuse_unknown(rest, {"dataset_size", "batch_size", "epochs", "dim"})
    refuse_missing(rest, ("dataset_size", "batch_size", "epochs"))
    target_of(**targets)
    mechanism = DpSgd.calibrated(**targets, threat_model=threat_model_of(adversary), **rest)
    return {"noise_multiplier": mechanism.noise_multiplier}, mechanism.noise_multiplier, mechanism


def _found_in_pipeline(settings, targets, adversary):
    steps = settings["steps"]
    tables = [table for table in steps if isinstance(table, dict)]
    open_ones = [(k, key) for k, table in enumerate(tables) for key, value in table.items()
                 if isinstance(value, str) and value == FIND]
    if len(open_ones) != 1:
        several = f"{len(open_ones)} are open" if open_ones else "none is open"
        raise ValueError(f'one number has to be "{FIND}", such as noise_multiplier; {several}')
    place, key = open_ones[0]
    if key not in _REAL and key not in _WHOLE:
        raise ValueError(f"step {place + 1}: {key} cannot be found; "
                         f"accepted: {', '.join((*_REAL, *_WHOLE))}")
    target = target_of(**targets)

    def make(value):
        table = {**tables[place], key: value}
        return Pipeline([*steps[:place], table, *steps[place + 1 :]], settings["group"])

    if key in _WHOLE:
        value = _last_whole(lambda count: bool(target.holds(_row_of(make(count), adversary))), key)
    else:
        value = _real(lambda number: _row_of(make(number), adversary), targets, key)
    where = {key: value, **({"step": place + 1} if len(steps) > 1 else {})}
    return where, value, make(value)


def _real(make_curve, targets, name):
    try:
        return calibrate(make_curve, **targets, bracket=_REAL[name])
    except Unbracketed as error:
        low, high = _REAL[name]
        raise ValueError(
            f"the target {error.verb} at {name} = {low:g} as well as at {high:g}"
        ) from None


def _last_whole(holds, name):
    """The whole number in 1 ... `_MOST` next to one at which the target fails."""
    holds = cache(holds)
    good_end = holds(1)
    # where one fails more mostly fail too, and the way there would only take longer
    endless = not good_end and not holds(_MOST)
    near, far = 1, 4
    while endless or holds(far) == good_end:
        if endless or far == _MOST:
            verb = "holds" if good_end else "fails"
            raise ValueError(f"the target {verb} at {name} = 1 as well as at {_MOST:,}")
        near, far = far, min(4 * far, _MOST)
    while far - near > 1:
        middle = (near + far) // 2
        near, far = (middle, far) if holds(middle) == good_end else (near, middle)
    return near if good_end else far
