"""The mechanism that flags or a file describe, the same for every command."""

import re

_MECHANISM_FLAGS = ("noise", "sensitivity", "std", "scale", "releases", "dim")
_PIPELINE_FLAGS = ("mechanism", "with", "group")
DP_SGD_FLAGS = ("dataset_size", "batch_size", "epochs", "noise_multiplier", "epsilon")


def settings_of(arguments, names):
    """{name: value} of the flags that were given."""
    return {name: getattr(arguments, name) for name in names
            if getattr(arguments, name, None) is not None}


def _flag(name):
    return "--" + name.replace("_", "-")


def of_flags(arguments, message):
    """An error about a setting under the name of the flag that it came from;
    settings of a file keep theirs.
    """
    if (
        getattr(arguments, "config", None) is not None
        or getattr(arguments, "mechanism", None) is not None  # whose arguments follow --with
    ):
        return message
    names = [name for name in vars(arguments)
             if name not in ("command", "config", "scores", "out", "json")]
    # no words of a sentence: flags wherever they stand
    compound = "|".join(name for name in names if "_" in name) or "(?!)"
    leading = rf"^(?:{'|'.join(names)})(?= = | is missing| does not go with )"
    if names:
        return re.sub(rf"{leading}|\b(?:{compound})\b", lambda found: _flag(found[0]), message)
    return message


def described(arguments, dp_sgd_flags=DP_SGD_FLAGS):
    """("mechanism", "dp_sgd" or "pipeline", its settings, delta or None), from flags or a file.

    dp_sgd_flags: those of this command that describe DP-SGD.
    """
    from jaxpriv.report.config import read_toml

    settings = settings_of(arguments, _MECHANISM_FLAGS)
    single = settings_of(arguments, _PIPELINE_FLAGS)
    dp_sgd, delta = settings_of(arguments, dp_sgd_flags), arguments.delta
    given = [*settings, *dp_sgd, *single]
    if arguments.config is not None:
        if given:
            raise ValueError(f"give either a TOML file or flags, not both ({_flag(given[0])})")
        table, settings, file_delta = read_toml(arguments.config)
        delta = file_delta if delta is None else delta
    elif single:
        table, settings = "pipeline", _single(single, [*settings, *dp_sgd])
    else:
        table = "dp_sgd" if dp_sgd else "mechanism"
        _refuse_both(settings, dp_sgd)
        settings |= dp_sgd
    return table, settings, delta


def claimed(arguments):
    """What `described` gives of the mechanism of `audit`, or None where none is described: epsilon
    is a claim there.
    """
    flags = tuple(name for name in DP_SGD_FLAGS if name != "epsilon")
    if arguments.config is None and not settings_of(
        arguments, _MECHANISM_FLAGS + _PIPELINE_FLAGS + flags
    ):
        return None
    return described(arguments, flags)


def _single(flags, others):
    """The settings of a pipeline of one mechanism."""
    if "mechanism" not in flags:
        raise ValueError(f"{_flag(next(iter(flags)))} goes with --mechanism")
    if others:
        raise ValueError(
            f"{_flag(others[0])} does not go with --mechanism, whose arguments follow --with"
        )
    from jaxpriv.report.arguments import arguments_of

    given = arguments_of(flags.get("with", []))
    return {"steps": [{"mechanism": flags["mechanism"], **given}], "group": flags.get("group", 1)}


def _refuse_both(settings, dp_sgd):
    """ValueError for flags of DP-SGD beside those of a mechanism; --dim belongs to both."""
    other = [name for name in settings if name != "dim"]
    if dp_sgd and other:
        raise ValueError(f"{_flag(other[0])} does not go with DP-SGD ({_flag(next(iter(dp_sgd)))})")
