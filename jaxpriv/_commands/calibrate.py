"""`jaxpriv calibrate`: the number of a mechanism that just meets a target, with its certificate."""

from jaxpriv._commands.described import described, settings_of
from jaxpriv._commands.shown import busy, print_certificate

_TARGETS = ("epsilon", "delta", "advantage", "mu", "fpr", "tpr")


def calibrate(arguments):
    table, settings, delta = described(arguments, ("dataset_size", "batch_size", "epochs"))
    targets = settings_of(arguments, _TARGETS)
    if "epsilon" in targets and delta is not None:
        targets["delta"] = delta  # which may be the file's
    from jaxpriv.report import certify
    from jaxpriv.report.certificate import gains_nothing
    from jaxpriv.report.find import found

    with busy("calibrating the mechanism"):
        where, value, mechanism = found(table, settings, targets, arguments.adversary)
    with busy("computing the certificate"):
        certificate = certify(mechanism, delta if delta is not None and delta < 1 else 1e-5)
        met_by_all = arguments.adversary == "relaxed" and _met_by_all(mechanism, targets)
    if met_by_all:
        certificate["notes"].insert(0, gains_nothing("relaxed"))
    asked = {"adversary": arguments.adversary, "target": targets}
    if not arguments.json:
        name = next(iter(where))
        place = f"step {where['step']}: " if "step" in where else ""
        wanted = ", ".join(f"{key} = {value:g}" for key, value in targets.items())
        print(f"{place}{name} = {_rounded(name, value)} meets {wanted} against the "
              f"{arguments.adversary} adversary.")
    print_certificate({"calibrated": {**where, **asked}, **certificate}, arguments.json)


def _rounded(name, value):
    """To the private side."""
    from jaxpriv._rounding import rounded_down, rounded_up

    if isinstance(value, int):
        return str(value)
    more_is_private = name in ("std", "scale", "sigma", "noise_multiplier")
    return (rounded_up if more_is_private else rounded_down)(value, 8)


def _met_by_all(mechanism, targets):
    """Whether the worst case meets the target."""
    from jaxpriv.accounting.privacy_target import target_of

    return bool(target_of(**targets).holds(mechanism.adversaries()[0][2]))
