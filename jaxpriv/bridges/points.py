"""What papers and tools exchange: curves from (epsilon, delta) points, and points of curves.

A mechanism that is (e_i, d_i)-differentially private for several i has

    1 - f(alpha) <= g(alpha) = min_i of d_i + e^(e_i) alpha and 1 - e^(-e_i) (1 - d_i - alpha),

a concave polygon that is its own mirror image in alpha + g = 1, and one mechanism attains it: every
side with a slope e^(e_i) is an outcome of loss e_i, of probability the side's rise; the side's
mirror image has loss -e_i; and what g(0) is, the least d_i, has no finite loss. Vertices are
differences of the numbers that were given, so they are computed with 60 digits more than these
have in common.
"""

from decimal import Context, Decimal, localcontext

import numpy as np

from jaxpriv._checks import UNIT, Domain
from jaxpriv._types import Numbers
from jaxpriv.bridges._lists import lists
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.listed import Listed, Listing
from jaxpriv.tradeoff.response import BlackBox

LARGEST = 1000.0  # epsilon, whose exponential has 435 digits
_EPSILON = Domain(0.0, LARGEST, "[0, 1000]", 1.0)
_DIGITS = 60


def curve(epsilon: Numbers, delta: Numbers) -> Curve:
    """The curve of a mechanism of which nothing but (epsilon, delta) points is known.

    Args:
        epsilon: `Float[Array, "k"]` in [0, 1000]. delta: `Float[Array, "k"]` in [0, 1].

    Returns: the symmetric `Curve` of the mechanism that is (epsilon_i, delta_i)-differentially
        private for every i, and for nothing else; of one point `worst_case.approximate_dp`. No
        derivatives: the numbers are constants.
    Guarantee: upper ends of all bounds hold for every mechanism with these points, composed with
        others, in groups and under sampling; lower ends hold for the worst of them.
    Raises: ValueError for numbers outside their range, arrays of other shapes and traced values.
    Source: Dong, Roth, Su 2022, Propositions 2.5 and 2.12; the mechanism: Kairouz, Oh, Viswanath
        2015 for one point, the module's beginning for several.

        >>> from jaxpriv.bridges.points import curve
        >>> found = curve([0.5, 1.0, 3.0], [1e-2, 1e-3, 1e-6])
        >>> print(f"{found.delta(2.0):.6f} {found.compose(4).epsilon(1e-4):.4f}")
        0.000731 4.4605
    """
    epsilon, delta = lists(epsilon=(epsilon, _EPSILON), delta=(delta, UNIT))
    with localcontext(_digits(epsilon, delta)):
        sides, told = _sides(epsilon, delta)
        below = [_log(told), *(_log(step * (e.exp())) for e, step in sides)]
        above = [*(_log(step) for _, step in reversed(sides)), -np.inf]
    losses = [float(e) for e, _ in sides]
    if len(losses) == 1:  # of which any number composes in closed form
        return Curve(BlackBox(np.float64(losses[0]), np.float64(told)))
    every = -np.inf, *(-e for e in losses), *reversed(losses), np.inf
    null = below + above
    return Curve(Listed(np.float64(told), Listing.of(zip(every, null, null[::-1]))))


def of(curve: Curve, epsilon: Numbers) -> list[tuple[float, float]]:
    """Certified (epsilon, delta) points of a curve, to be written down or read elsewhere.

    Args:
        curve: a `Curve`; take `symmetric()` for both neighbours.
        epsilon: `Float[Array, "k"]` in (-inf, inf).

    Returns: [(epsilon, delta)], of Python's floats. Guarantee: the mechanism is (epsilon,
        delta)-differentially private for each: delta is the upper end of `delta_bounds`.

        >>> import jaxpriv
        >>> from jaxpriv.bridges import points
        >>> known = points.of(jaxpriv.worst_case.gaussian(1.0), [0.0, 1.0, 2.0])
        >>> [(epsilon, round(delta, 6)) for epsilon, delta in known]
        [(0.0, 0.382925), (1.0, 0.126937), (2.0, 0.020924)]
    """
    epsilon = np.asarray(epsilon, float)
    _, high = curve.delta_bounds(epsilon)
    return list(zip(epsilon.tolist(), np.asarray(high, float).tolist()))


def _digits(epsilon, delta):
    """Enough for slopes e^epsilon that differ little, and for the least and the largest numbers."""
    gaps = np.diff(np.unique([0.0, *epsilon]))
    least = [np.min(part[part > 0], initial=1.0) for part in (gaps, delta, 1 - delta)]
    digits = _DIGITS - np.sum(np.log10(least)) + np.max(epsilon) / np.log(10)
    return Context(prec=int(digits), Emax=999_999, Emin=-999_999)


def _sides(epsilon, delta):
    """([(epsilon, width of its side in alpha)] from the steepest on, g(0)), in 60 digits: the lower
    envelope of the lines d_i + e^(e_i) alpha up to where alpha + g = 1.
    """
    least: dict = {}
    for e, d in zip(epsilon.tolist(), delta.tolist()):
        least[e] = min(d, least.get(e, 1.0))
    lines: list = []  # (epsilon, slope, delta), and from which alpha on it is the lowest
    starts: list = []
    for e in sorted(least, reverse=True):
        line = Decimal(e), Decimal(e).exp(), Decimal(least[e])
        if lines and line[2] <= lines[-1][2]:  # lower everywhere
            while lines and line[2] <= lines[-1][2]:
                lines.pop(), starts.pop()
        while lines and _meet(lines[-1], line) <= starts[-1]:
            lines.pop(), starts.pop()
        starts.append(_meet(lines[-1], line) if lines else Decimal(0))
        lines.append(line)
    ends = [*starts[1:], Decimal(2)]
    sides: list = []
    for (e, slope, d), start, end in zip(lines, starts, ends):
        end = min(end, (1 - d) / (1 + slope))
        if end > start or not sides:
            sides.append((e, max(end - start, Decimal(0))))
    return sides, lines[0][2]


def _meet(steep, flat):
    return (flat[2] - steep[2]) / (steep[1] - flat[1])


def _log(mass):
    return float(mass.ln()) if mass > 0 else -np.inf
