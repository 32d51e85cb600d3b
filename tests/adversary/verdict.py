"""Is a bracket right? Compared exactly with the ball of the truth;
what the ball cannot decide counts as undecided.
"""

import math
from dataclasses import dataclass

from flint import arb

from tests.adversary.balls import exact, one, precision, zero
from tests.adversary.definitions import DEFINED, law
from tests.adversary.oracle import Unavailable, names, steps_around, truth
from tests.adversary.settings import LEAVES, scale

WIDE = 1e-4
ONE_PAIR = LEAVES


@dataclass(frozen=True)
class Verdict:
    kind: str  # "right", "violation", "undecided", "unavailable"
    note: str = ""
    width: float = 0.0  # relative, of a right bracket


def judge(setting, low, high):
    if math.isnan(low) or math.isnan(high):
        return Verdict("violation", f"NaN: [{low!r}, {high!r}]")
    if low > high:
        return Verdict("violation", f"lower {low!r} > upper {high!r}")
    try:
        notes, open_ = [], False
        for mechanism in steps_around(setting.mechanism):
            found, undecided = CHECKS[setting.method](
                mechanism, setting.direction, setting.argument, low, high
            )
            notes += found
            open_ |= undecided
    except Unavailable as reason:
        return Verdict("unavailable", str(reason))
    if notes:
        return Verdict("violation", "; ".join(notes))
    size = max(abs(low), abs(high))
    width = (
        (high - low) / size if size and math.isfinite(high) else (math.inf if high > low else 0.0)
    )
    return Verdict("undecided" if open_ else "right", width=width)


def check_delta(mechanism, direction, eps, low, high):
    t = truth(mechanism, eps, direction)
    return sided(t.compare(low), t.compare(high), low, high, lambda: digits(t))


def check_log_delta(mechanism, direction, eps, low, high):
    t = truth(mechanism, eps, direction)
    return sided(t.compare_log(low), t.compare_log(high), low, high, lambda: digits(t))


def sided(below, above, low, high, say):
    """below, above: signs of truth - low and truth - high."""
    notes = []
    if below is not None and below < 0:
        notes.append(f"lower {low!r} above the truth {say()}")
    if above is not None and above > 0:
        notes.append(f"upper {high!r} below the truth {say()}")
    return notes, below is None or above is None


def digits(t):
    with precision(400):
        if t.delta.is_zero():
            return "delta 0"
        if t.delta < 1e-300:
            return f"log delta {t.log_delta().str(20, radius=False)}"
        if t.delta > 0.9:
            return f"1 - delta {t.complement.str(20, radius=False)}"
        return f"delta {t.delta.str(20, radius=False)}"


def check_advantage(mechanism, direction, _, low, high):
    return check_delta(mechanism, direction, 0.0, low, high)


def check_epsilon(mechanism, direction, delta, low, high):
    """epsilon(delta) = the smallest eps >= 0 with delta(eps) <= delta: by
    monotonicity of delta(eps).
    """
    notes, open_ = [], False
    if low < 0:
        notes.append(f"lower {low!r} < 0")
    if high < math.inf:
        t = truth(mechanism, max(high, 0.0), direction)
        s = t.compare(delta)
        open_ |= s is None
        if s == 1:
            notes.append(f"upper {high!r}: there {digits(t)} > {delta!r}")
    if low > 0:
        if low == math.inf:
            # inf is right only if delta(eps) > delta for every eps:
            # for delta = 0 and unbounded losses, or revelation
            s = truth(mechanism, 1.7e308, direction).compare(delta) if delta else 1
            open_ |= s is None
            if s in (0, -1):
                notes.append("lower inf")
        else:
            t = truth(mechanism, low, direction)
            s = t.compare(delta)
            open_ |= s is None
            if s == -1:
                notes.append(f"lower {low!r}: there already {digits(t)} < {delta!r}")
            elif s == 0 and truth(mechanism, math.nextafter(low, 0.0), direction).compare(
                delta
            ) in (0, -1):
                notes.append(f"lower {low!r} above the smallest epsilon")
    return notes, open_


def check_beta(mechanism, direction, alpha, low, high):
    floor, ceiling = beta(mechanism, direction, alpha)
    with precision(600):
        notes = []
        open_ = not (low <= floor and high >= ceiling)
        if exact(low) > ceiling:
            notes.append(f"lower {low!r} above beta {ceiling.str(20, radius=False)}")
        if exact(high) < floor:
            notes.append(f"upper {high!r} below beta {floor.str(20, radius=False)}")
    return notes, open_ and not notes


def beta(mechanism, direction, alpha):
    """(floor, ceiling) of f(alpha) = sup_eps 1 - delta(eps) - e^eps alpha.

    g(x) = 1 - delta(log x) - x alpha is concave in x = e^eps: every value is a floor; over a
    bracket x1 < x2 < x3 of the maximum the chords through (x1, x2) and (x2, x3), continued, are a
    ceiling. x = 0 gives 0, x -> inf: -inf.
    """
    if alpha == 0:
        t = beta_at_zero(mechanism, direction)
        return t, t
    with precision(300):
        a = exact(alpha)

        def g(eps):
            return truth(mechanism, eps, direction).complement - arb(eps).exp() * a

        low, high = -1.0, 1.0
        points = {}

        def at(eps):
            if eps not in points:
                points[eps] = g(eps)
            return points[eps]

        span = min(max(scale(mechanism)[0], 1e-200), 1e3)
        middle, enough = 0.0, 1e-9 if mechanism[0] in ONE_PAIR else 1e-5
        for _ in range(60):  # a bracket around the maximum
            low, high = middle - span, middle + span
            if not at(low) < at(middle) and at(low) > at(middle):
                middle, span = low, span * 1.6
            elif at(high) > at(middle):
                middle, span = high, span * 1.6
            else:
                break
        else:
            raise Unavailable("no bracket of beta")
        golden, span_of_first = 0.381966, high - low
        for _ in range(46):
            wide_right = high - middle > middle - low
            new = (
                middle + golden * (high - middle)
                if wide_right
                else middle - golden * (middle - low)
            )
            if at(new) > at(middle):
                low, high = (middle, high) if wide_right else (low, middle)
                middle = new
            elif wide_right:
                high = new
            else:
                low = new
            if high - low < enough * span_of_first:
                break
        xs = [arb(e).exp() for e in (low, middle, high)]
        ys = [at(e) for e in (low, middle, high)]
        left = (ys[1] - ys[0]) / (xs[1] - xs[0])
        right = (ys[2] - ys[1]) / (xs[2] - xs[1])
        up = abs(left) * (xs[2] - xs[1]) + abs(right) * (xs[1] - xs[0])
        floor = arb(0).max(ys[1])
        ceiling = (floor + up).min(1 - a)
        return floor, ceiling


def beta_at_zero(mechanism, direction):
    """f(0) = 1 - Q(P = 0): 1 - the limit of delta at infinity."""
    name, *p = mechanism
    with precision(600):
        if names(mechanism) & DEFINED:
            sides = [(q, p) if direction == "forward" else (p, q) for p, q, _ in law(mechanism)]
            return 1 - sum((own for own, other in sides if other.is_zero()), zero())
        if name == "approximate_dp":
            return 1 - exact(p[1])
        if name == "subsample":
            inner = beta_at_zero(p[1], direction)
            if direction == "forward":
                return 1 - exact(p[0]) * (1 - inner)
            raise Unavailable("f(0) of a reverse")
        if name == "power":
            return beta_at_zero(p[0], direction) ** int(p[1])
        if name == "compose":
            out = one()
            for m in p:
                out *= beta_at_zero(m, direction)
            return out
        if name == "mixture":
            return sum(exact(w) * beta_at_zero(m, direction) for m, w in zip(p[0], p[1]))
        return one()


def check_noise(mechanism, direction, eps, low, high):
    """The target delta holds at `high`, and not yet at `low`: delta falls with the noise."""
    _, rate, steps, delta = mechanism
    at_high, at_low = (
        truth(("dp_sgd", noise, rate, steps), eps, direction) if noise > 0 else None
        for noise in (high, low)
    )
    notes, signs = [], [at_high.compare(delta)]
    if signs[0] == 1:
        notes.append(f"noise {high!r}: there {digits(at_high)} > {delta!r}")
    if at_low is not None:
        signs.append(at_low.compare(delta))
        if signs[1] == -1:
            notes.append(f"noise {low!r}: there already {digits(at_low)} < {delta!r}")
    return notes, None in signs


def check_mu(mechanism, direction, _, low, high):
    if names(mechanism) & DEFINED:
        return enough_of_mu(mechanism, direction, high)
    found = smallest_mu(mechanism)
    if found is None:
        raise Unavailable("no closed form of mu")
    with precision(600):
        value = found()
        notes = []
        if exact(low) > value:
            notes.append(f"lower {low!r} above mu {value.str(20, radius=False)}")
        if not math.isinf(high) and exact(high) < value:
            notes.append(f"upper {high!r} below mu {value.str(20, radius=False)}")
        open_ = not (exact(low) <= value and (math.isinf(high) or exact(high) >= value))
    return notes, open_ and not notes


def enough_of_mu(mechanism, direction, high):
    """That no profile at a few eps is above that of `high`; nothing of the lower end."""
    notes, open_, size = [], math.isinf(high), min(max(scale(mechanism)[0], 1e-200), 600.0)
    for eps in () if open_ else (0.0, size / 10, size / 2, 0.9 * size, 1.5 * size):
        own = truth(mechanism, eps, direction)
        gaussian = truth(("gaussian", high), eps)
        with precision(600):
            if own.delta > gaussian.delta:
                notes.append(f"upper {high!r}: at {eps!r} {digits(own)} > {digits(gaussian)}")
            open_ |= not own.delta <= gaussian.delta
    return notes, open_ and not notes


def smallest_mu(mechanism):
    name, *p = mechanism
    if name in ("gaussian", "relaxed_gaussian"):
        return lambda: exact(p[0])
    if name in ("dp_sgd", "relaxed_sgd"):  # for alpha -> 0 only magnitudes along the record count
        return lambda: exact(p[2]).sqrt() / exact(p[0])
    if name == "replace_one":
        return lambda: 2 * exact(p[2]).sqrt() / exact(p[0])
    if name == "randomized_response":
        # f passes (p, p), p = 1/(1+e^E), where it is nearest:
        # G_mu(p) = p, mu = 2 Phi^-1(1 - p); by bisection
        return lambda: corner_mu(lambda: 1 / (1 + exact(p[0]).exp()))
    return None


def corner_mu(level):
    """mu with Phi(-mu/2) = level, as a ball by bisection on dyadic numbers."""
    from tests.adversary.balls import tail

    target = level()
    if target.overlaps(arb(0.5)) and (target - arb(0.5)).is_zero():
        return arb(0)
    low, high = arb(0), arb(2)
    while tail(high / 2) > target:
        low, high = high, 2 * high
    for _ in range(130):
        middle = ((low + high) / 2).mid()
        low, high = (middle, high) if tail(middle / 2) > target else (low, middle)
    return low.union(high)


CHECKS = {
    "delta": check_delta,
    "log_delta": check_log_delta,
    "epsilon": check_epsilon,
    "beta": check_beta,
    "advantage": check_advantage,
    "mu": check_mu,
    "noise": check_noise,
}
