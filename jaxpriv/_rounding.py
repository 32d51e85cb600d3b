"""Numbers as they are printed: rounded to the side on which a guarantee still holds."""

import math


def rounded_up(value, digits=4):
    """A number printed on the safe side: never below its value."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = _unit(value, digits)
    shown = f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.{digits}g}"
    return shown if float(shown) >= value * (1 - 1e-11) else f"{float(shown) + unit:.{digits}g}"


def rounded_down(value, digits=4):
    """A number >= 0 printed on its other side: never above its value."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = _unit(value, digits)
    shown = f"{math.floor(value / unit * (1 + 1e-12)) * unit:.{digits}g}"
    return shown if float(shown) <= value * (1 + 1e-11) else f"{float(shown) - unit:.{digits}g}"


def shown(bound, rounded=rounded_up):
    """A bound of a certificate, where None is infinity."""
    return "∞" if bound is None else rounded(bound)


def _unit(value, digits):
    """Of the last digit that is shown."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
