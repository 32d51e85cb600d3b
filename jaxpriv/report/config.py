"""A mechanism from a TOML file or from flags: every unknown or missing key is one clear error."""

from jaxpriv._checks import SCALE, check_number
from jaxpriv.report.certificate import Mechanism
from jaxpriv.report.dp_sgd import DpSgd
from jaxpriv.report.toml import toml_content

_KEYS = {"noise", "sensitivity", "std", "scale", "releases", "dim"}
_DP_SGD_KEYS = {"dataset_size", "batch_size", "epochs", "noise_multiplier", "epsilon",
                "threat_model", "dim"}


def described_by(table, settings, delta):
    """The `Mechanism`, `DpSgd` or `Pipeline` of a table, as `read_toml` gives it."""
    if table == "dp_sgd":
        return dp_sgd_from(settings, delta)
    if table == "mechanism":
        return mechanism_from(settings)
    from jaxpriv.report.pipeline import Pipeline

    return Pipeline(**settings)


def mechanism_from(settings):
    """A `Mechanism` from {"noise", "sensitivity", "std" or "scale", "releases", "dim"}.

    sensitivity and std (gaussian) or scale (laplace) are numbers, or lists with one entry per
    release; `releases` repeats single numbers. Raises ValueError naming the key.
    """
    refuse_unknown(settings, _KEYS)
    noise = settings.get("noise", "gaussian")
    wanted, other = ("scale", "std") if noise == "laplace" else ("std", "scale")
    if other in settings:
        raise ValueError(
            f"{other} = {settings[other]} does not go with {noise} noise; give {wanted}"
        )
    refuse_missing(settings, ("sensitivity", wanted))
    sensitivities, scales = (_numbers(key, settings[key]) for key in ("sensitivity", wanted))
    # under the name that was given; a `Mechanism` has others
    check_number("sensitivity", sensitivities, SCALE)
    check_number(wanted, scales, SCALE)
    releases = settings.get("releases")
    if releases is not None and (
        isinstance(releases, bool) or not isinstance(releases, int) or releases < 1
    ):
        raise ValueError(f"releases = {releases!r} is outside its range 1, 2, 3, ...")
    count = releases or max(len(sensitivities), len(scales))
    sensitivities, scales = (
        values * count if len(values) == 1 else values for values in (sensitivities, scales)
    )
    if releases is not None and len(scales) != releases:
        raise ValueError(f"releases = {releases} for {len(scales)} values of {wanted}")
    return Mechanism(noise, sensitivities, scales, _number("dim", settings.get("dim", 1)))


def dp_sgd_from(settings, delta):
    """A `DpSgd` from {"dataset_size", "batch_size", "epochs", "noise_multiplier" or "epsilon",
    "threat_model", "dim"}.

    `epsilon` stands for the noise that meets (epsilon, delta) in a threat model, "worst_case" or
    "relaxed". Raises ValueError naming the key.
    """
    refuse_unknown(settings, _DP_SGD_KEYS)
    refuse_missing(settings, ("dataset_size", "batch_size", "epochs"))
    if ("noise_multiplier" in settings) == ("epsilon" in settings):
        raise ValueError(
            "DP-SGD needs either noise_multiplier or epsilon"
            + (", not both" * ("epsilon" in settings))
        )
    numbers = {key: _number(key, value) for key, value in settings.items() if key != "threat_model"}
    if "epsilon" in numbers:
        return DpSgd.calibrated(
            delta=delta,
            threat_model=threat_model_of(settings.get("threat_model", "worst_case")),
            **numbers,
        )
    if "threat_model" in settings:
        raise ValueError("threat_model goes with epsilon: it says whom the target is meant for")
    return DpSgd(**numbers)


def threat_model_of(text):
    """"worst_case" or "relaxed", also as `--adversary` spells them."""
    found = str(text).replace("-", "_")
    if found not in ("worst_case", "relaxed"):
        raise ValueError(f"threat_model = {text!r}; accepted: 'worst_case', 'relaxed'")
    return found


def refuse_unknown(settings, accepted):
    """ValueError naming a setting that is not accepted."""
    unknown = sorted(set(settings) - accepted)
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}; accepted: {', '.join(sorted(accepted))}")


def refuse_missing(settings, keys):
    """ValueError naming a setting that is not there."""
    for key in keys:
        if key not in settings:
            raise ValueError(f"{key} is missing")


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(key, value):
    if not _is_number(value):
        raise ValueError(f"{key} = {value!r} is not a number")
    return value


def _numbers(key, value):
    values = value if isinstance(value, list) else [value]
    if not values or not all(map(_is_number, values)):
        raise ValueError(f"{key} = {value!r} is not a number or a list of numbers")
    return tuple(float(v) for v in values)


def read_toml(path):
    """(table, its settings, delta or None) from a file with one of [mechanism], [dp_sgd],
    [[pipeline]], and an optional [certificate].

    `group` beside [[pipeline]], at the top or in [certificate], is one of its settings.
    """
    content = toml_content(path)
    tables = ("mechanism", "dp_sgd", "pipeline")
    unknown = sorted(set(content) - {*tables, "certificate", "group"})
    if unknown:
        raise ValueError(
            f"{path}: unknown table [{unknown[0]}]; accepted: [mechanism], [dp_sgd], [[pipeline]], "
            "[certificate], and group"
        )
    certificate = content.get("certificate", {})
    given = [name for name in tables if isinstance(content.get(name), (dict, list))]
    if len(given) != 1 or not isinstance(certificate, dict):
        both, none = (f"both {' and '.join(f'[{name}]' for name in given)} are there",
                      "a [mechanism] table is missing, or [dp_sgd], or [[pipeline]]")
        raise ValueError(f"{path}: {both if given else none}")
    table, settings = given[0], content[given[0]]
    if isinstance(settings, list) != (table == "pipeline"):
        brackets = "double brackets, [[pipeline]]" if table == "pipeline" else f"single, [{table}]"
        raise ValueError(f"{path}: {table} is written in {brackets}")
    accepted = {"delta", "group"} if table == "pipeline" else {"delta"}
    unknown = sorted({*certificate, *(set(content) & {"group"})} - accepted)
    if unknown:
        raise ValueError(
            f"{path}: unknown setting {unknown[0]!r} in [certificate]; "
            f"accepted: {', '.join(sorted(accepted))}"
        )
    delta = certificate.get("delta")
    if delta is not None and not _is_number(delta):
        raise ValueError(f"{path}: delta = {delta!r} is not a number")
    if table == "pipeline":
        if "group" in content and "group" in certificate:
            raise ValueError(f"{path}: group is there twice, at the top and in [certificate]")
        group = certificate.get("group", content.get("group", 1))
        settings = {"steps": settings, "group": group}
    return table, settings, delta
