"""A mechanism from a TOML file or from flags: every unknown or missing key is one clear error."""

import tomllib

from jaxpriv.report.certificate import Mechanism

_KEYS = {"noise", "sensitivity", "std", "scale", "releases", "dim"}


def mechanism_from(settings):
    """A `Mechanism` from {"noise", "sensitivity", "std" or "scale", "releases", "dim"}.

    sensitivity and std (gaussian) or scale (laplace) are numbers, or lists with one entry per release; `releases` repeats
    single numbers. Raises ValueError naming the key.
    """
    unknown = sorted(set(settings) - _KEYS)
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}; accepted: {', '.join(sorted(_KEYS))}")
    noise = settings.get("noise", "gaussian")
    wanted, other = ("scale", "std") if noise == "laplace" else ("std", "scale")
    if other in settings:
        raise ValueError(f"{other} = {settings[other]} does not go with {noise} noise; give {wanted}")
    for key in ("sensitivity", wanted):
        if key not in settings:
            raise ValueError(f"{key} is missing")
    sensitivities, scales = (_numbers(key, settings[key]) for key in ("sensitivity", wanted))
    releases = settings.get("releases")
    if releases is not None and (isinstance(releases, bool) or not isinstance(releases, int) or releases < 1):
        raise ValueError(f"releases = {releases!r} is outside its range 1, 2, 3, ...")
    count = releases or max(len(sensitivities), len(scales))
    sensitivities, scales = (values * count if len(values) == 1 else values for values in (sensitivities, scales))
    if releases is not None and len(scales) != releases:
        raise ValueError(f"releases = {releases} for {len(scales)} values of {wanted}")
    dim = settings.get("dim", 1)
    if isinstance(dim, bool) or not isinstance(dim, (int, float)):
        raise ValueError(f"dim = {dim!r} is not a number")
    return Mechanism(noise, sensitivities, scales, dim)


def _numbers(key, value):
    values = value if isinstance(value, list) else [value]
    if not values or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        raise ValueError(f"{key} = {value!r} is not a number or a list of numbers")
    return tuple(float(v) for v in values)


def read_toml(path):
    """(mechanism settings, delta or None) from a file with a [mechanism] table and an optional [certificate] table."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    unknown = sorted(set(content) - {"mechanism", "certificate"})
    if unknown:
        raise ValueError(f"{path}: unknown table [{unknown[0]}]; accepted: [mechanism], [certificate]")
    certificate = content.get("certificate", {})
    if not isinstance(content.get("mechanism"), dict) or not isinstance(certificate, dict):
        raise ValueError(f"{path}: a [mechanism] table is missing")
    if set(certificate) - {"delta"}:
        raise ValueError(f"{path}: unknown setting {sorted(set(certificate) - {'delta'})[0]!r} in [certificate]; accepted: delta")
    delta = certificate.get("delta")
    if delta is not None and (isinstance(delta, bool) or not isinstance(delta, (int, float))):
        raise ValueError(f"{path}: delta = {delta!r} is not a number")
    return content["mechanism"], delta
