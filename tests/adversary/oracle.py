"""The truth about privacy curves, in ball arithmetic and from the mathematics alone.

A mechanism is a tuple of a name and doubles, which are taken exactly as they are:

    ("gaussian", mu)  ("laplace", ratio)  ("randomized_response", E)  ("approximate_dp", E, D)
    ("relaxed_gaussian", mu, dim)  ("relaxed_laplace", ratio)
    ("membership", dim, batch_size, susceptibility)
    ("subsample", rate, mechanism)  ("mixture", (mechanisms...), (weights...))
    ("dp_sgd", noise_multiplier, sampling_rate, steps)
    ("replace_one", the same)  ("relaxed_sgd", the same, dim)
    ("compose", mechanism, ...)  ("power", mechanism, n)

`truth(mechanism, eps, direction)` encloses delta(eps) and 1 - delta(eps): closed forms (`closed`),
enumerations (`finite`), or the inverted transform (`inversion`, `turned`). For DP-SGD of a
fractional number of steps at a rate below 1 a certificate is one of whole steps: there are two
truths, at the floor and at the ceiling, and a bracket holds both. Raises `Unavailable` where no
method is within its budget.
"""

import math
from dataclasses import dataclass

from flint import arb, ctx

from tests.adversary.balls import PRECISIONS, accurate, exact, one, precision, sign, zero
from tests.adversary.chi_square import Unavailable
from tests.adversary.closed import perfect, profile
from tests.adversary.definitions import DEFINED, EXCHANGED, LOOSE, law, total
from tests.adversary.finite import enumerated
from tests.adversary.inversion import Composition, composed, shift_part
from tests.adversary.paths import Magnitude, Normal, Replaced
from tests.adversary.turned import ROUGH, Turned

DIRECTIONS = ("forward", "reverse", "symmetric")
EITHER_WAY = (
    "gaussian",
    "laplace",
    "randomized_response",
    "approximate_dp",
    "replace_one",
    *EXCHANGED,
)  # the same in both directions
BITS = 84  # about 1e-25


KEPT, METHODS = {}, {}


@dataclass
class Truth:
    """Balls of delta and 1 - delta; `again(bits)` gives them at a higher precision,
    None where there is no more.
    """

    delta: arb
    complement: arb
    again: object = None

    def compare(self, x):
        """Sign of delta - x for a double x, or None."""
        if x != x:
            raise ValueError("NaN")
        if math.isinf(x):
            return -1 if x > 0 else 1
        return self.decide(
            lambda t: t.delta - exact(x) if x <= 0.5 else (1 - exact(x)) - t.complement
        )

    def compare_log(self, x):
        """Sign of log delta - x for a double x (which may be -inf, the log of 0), or None."""
        if x != x:
            raise ValueError("NaN")
        if self.delta.is_zero():
            return 0 if x == -math.inf else -1
        if x == -math.inf:
            return 1 if self.delta > 0 else None
        if math.isinf(x):
            return -1
        return self.decide(lambda t: t.log_delta() - exact(x))

    def log_delta(self):
        if self.delta < 0.5:
            return self.delta.log()
        return (-self.complement).log1p()

    def decide(self, difference):
        at = self
        for bits in (600, 2400, 9600):
            with precision(max(bits, ctx.prec)):
                s = sign(difference(at))
                if s is not None:
                    return s
                if at.again is None:
                    return None
                at = at.again(bits)
        return None


def truth(mechanism, eps, direction="forward"):
    """`Truth` at the double (or arb) eps; direction "forward",
    "reverse" or "symmetric" (the larger delta).
    """
    if mechanism[0] in EITHER_WAY:
        direction = "forward"
    if direction == "symmetric":
        return larger(truth(mechanism, eps, "forward"), truth(mechanism, eps, "reverse"))
    key = (mechanism, eps, direction)
    if key not in KEPT:
        if len(KEPT) > 5000:
            KEPT.clear()
        KEPT[key] = one_direction(mechanism, eps, direction == "forward")
    return KEPT[key]


def larger(a, b):
    with precision(600):
        s = (
            a.decide(lambda t: t.delta - b.delta)
            if b.delta < 0.5
            else a.decide(lambda t: b.complement - t.complement)
        )
        if s is not None:
            return a if s >= 0 else b
        return Truth(a.delta.union(b.delta), a.complement.union(b.complement))


def log_delta(mechanism, eps, direction="forward"):
    with precision(600):
        return truth(mechanism, eps, direction).log_delta()


def one_direction(mechanism, eps, forward):
    if mechanism not in METHODS:
        if len(METHODS) > 2000:
            METHODS.clear()
        METHODS[mechanism] = by_definition(mechanism) or method(simplified(mechanism))
    evaluate = METHODS[mechanism]

    def again(bits):
        with precision(bits):
            delta, complement = evaluate(exact(eps), forward)
            return Truth(delta, complement, again if evaluate.refines and bits < 9600 else None)

    if not evaluate.refines:
        with precision(400):
            return Truth(*evaluate(exact(eps), forward))
    for bits in PRECISIONS:
        found = again(bits)
        if accurate(found.delta, BITS) and accurate(found.complement, BITS):
            return found
        # an exact zero hides in a ball around it only at the ends of the losses
    return found


def by_definition(mechanism):
    """Where a mechanism of `definitions` is part of it."""
    if not names(mechanism) & DEFINED:
        return None

    def evaluate(eps, forward):
        return total(law(mechanism), eps, forward)

    return refining(evaluate, not names(mechanism) & LOOSE)


def names(mechanism):
    found = {mechanism} if isinstance(mechanism, str) else set()
    for part in mechanism if isinstance(mechanism, tuple) else ():
        found |= names(part)
    return found


def simplified(mechanism):
    """The same curve with fewer names:
    powers and nested compositions flattened, DP-SGD as steps.
    """
    name, *p = mechanism
    if name == "dp_sgd":
        noise, rate, steps = p
        if rate == 1.0:
            return ("gaussian", lambda: exact(steps).sqrt() / exact(noise))
        if steps != math.floor(steps):
            raise ValueError("two truths")
        return (
            "compose",
            (("subsample", rate, ("gaussian", lambda: 1 / exact(noise))), int(steps)),
        )
    if name == "power":
        return flattened([(p[0], p[1])])
    if name == "compose":
        return flattened([(member, 1) for member in p])
    return mechanism


def flattened(members):
    """("compose", (mechanism, count), ...)
    with Gaussian members joined in closed form where all are.
    """
    out = []
    for member, count in members:
        inner = simplified(member)
        if inner[0] == "compose":
            out += [(m, n * count) for m, n in inner[1:]]
        elif inner[0] == "subsample" and inner[1] == 1.0:
            out += [(m, n * count) for m, n in flattened([(inner[2], 1)])[1:]]
        else:
            out.append((inner, count))
    return ("compose", *out)


def method(mechanism):
    """A function (eps, forward) -> (delta, complement); its attribute `refines`:
    better at a higher precision.
    """
    if mechanism[0] in ("relaxed_sgd", "replace_one"):
        return stepwise(*mechanism)
    if mechanism[0] != "compose":
        return refining(lambda eps, forward: profile(mechanism, eps, forward), True)
    members = [(m, n) for m, n in mechanism[1:] if n != 0 and not trivial(m)]
    if not members:
        return refining(lambda eps, forward: perfect(eps), True)
    names = {m[0] for m, _ in members}

    def root():
        """mu of all together, at the working precision."""
        return squares(members).sqrt()

    if names == {"gaussian"}:
        return refining(lambda eps, forward: profile(("gaussian", root), eps, forward), True)
    if names == {"relaxed_gaussian"} and len({m[2] for m, _ in members}) == 1:
        dim = members[0][0][2]
        return refining(
            lambda eps, forward: profile(("relaxed_gaussian", root, dim), eps, forward), True
        )
    if any(n != int(n) for m, n in members if m[0] != "gaussian"):
        raise Unavailable("fractional counts")
    if len(members) == 1 and members[0][1] == 1:
        return method(members[0][0])
    revealing = [(m[2], n) for m, n in members if m[0] == "approximate_dp"]
    pure = [
        (("randomized_response", m[1]), n) if m[0] == "approximate_dp" else (m, n)
        for m, n in members
    ]
    inner = without_revelation([(m, n) for m, n in pure if not trivial(m)])

    def evaluate(eps, forward):
        kept = one()
        for d, n in revealing:
            kept *= (1 - exact(d)) ** int(n)
        delta, complement = inner(eps, forward)
        return (1 - kept) + kept * delta, kept * complement

    return refining(evaluate, inner.refines) if revealing else inner


def without_revelation(members):
    """Members whose losses are finite."""
    if not members:
        return refining(lambda eps, forward: perfect(eps), True)
    if all(finite(m) for m, _ in members):
        parts = [(outcomes(m), int(n)) for m, n in members]
        return refining(lambda eps, forward: enumerated(parts, eps, forward), True)
    shifts, normals, laplaces, finites = [], [], [], []
    for m, n in members:
        name, *p = m
        if name == "gaussian":
            normals.append((m, n))
        elif name == "subsample" and p[1][0] == "gaussian":
            mu = p[1][1]
            shifts.append(
                shift_part(lambda mu=mu: value_of(mu), p[0], n, float(value_of(mu).mid()))
            )
        elif name == "laplace":
            laplaces.append((p[0], int(n)))
        elif finite(m):
            make = outcomes(m)
            with precision(64):
                finites.append(
                    ([(float(a.mid()), float(b.mid())) for a, b in make()], int(n), make)
                )
        else:
            raise Unavailable(f"composition with {name}")
    if not shifts and not normals:
        raise Unavailable("Laplace noise alone")
    normal = (lambda: squares(normals)) if normals else None
    with precision(64):
        normal_float = float(normal().mid()) if normals else 0.0
    composition = Composition(shifts, normal, normal_float, laplaces, finites)
    ways = [composition]
    if len(shifts) == len(members):
        turned = Turned([Normal(part.m, part.q, part.n) for part in shifts])
        rare = sum(part.n * part.q_float for part in shifts) < 1
        ways = [turned, composition] if rare else [composition, turned]

    def evaluate(eps, forward):
        if not normals:  # then the losses have a lower end: -end
            end = sum((-(1 - part.q()).log() * part.n for part in shifts), zero())
            end += sum((exact(r) * n for r, n in laplaces), zero())
            end += sum((-make()[1][0] * n for _, n, make in finites), zero())
            if forward and -eps - end >= 0:
                return -eps.expm1(), eps.exp()
            if not forward and eps - end >= 0:
                return zero(), one()
        return first_of(ways, eps, forward)

    return refining(evaluate, False)


def first_of(ways, eps, forward):
    """From the first way that is available."""
    try:
        return composed(ways[0], eps, forward)
    except Unavailable:
        if len(ways) == 1:
            raise
        return first_of(ways[1:], eps, forward)


def stepwise(name, noise, rate, steps, dim=None):
    """Steps seen by their magnitudes, or whose records are replaced, as pairs of their own."""
    if steps == 0:
        return refining(lambda eps, forward: perfect(eps), True)
    if name == "replace_one":
        return replaced(noise, rate, steps)
    if steps == 1:
        signal = ("relaxed_gaussian", lambda: 1 / exact(noise), dim)
        return refining(
            lambda eps, forward: profile(("subsample", rate, signal), eps, forward), True
        )
    path = Magnitude(lambda: 1 / exact(noise) ** 2, dim, lambda: exact(rate), steps)
    turned = Turned([path])

    def evaluate(eps, forward):
        end = turned.floor()
        if forward and eps <= end:
            return -eps.expm1(), eps.exp()
        if not forward and eps >= -end:
            return zero(), one()
        return composed(turned, eps, forward)

    return refining(evaluate, False)


def replaced(noise, rate, steps):
    """Of a pair that is its own reverse: complement(-eps) = e^-eps complement(eps)."""
    if rate == 1.0:
        together = ("gaussian", lambda: 2 * exact(steps).sqrt() / exact(noise))
        return refining(lambda eps, forward: profile(together, eps, forward), True)
    turned = Turned([Replaced(lambda: 2 / exact(noise), lambda: exact(rate), steps)], ROUGH)

    def evaluate(eps, forward):
        if not eps < 0:
            return composed(turned, eps, True)
        complement = composed(turned, -eps, True)[1] * eps.exp()
        return 1 - complement, complement

    return refining(evaluate, False)


def refining(function, refines):
    function.refines = refines
    return function


def value_of(mu):
    return exact(mu)


def squares(members):
    return sum((exact(m[1]) ** 2 * exact(n) for m, n in members), zero())


def trivial(m):
    """Null and alternative are the same."""
    return (
        m[0] in ("gaussian", "laplace", "randomized_response")
        and not callable(m[1])
        and m[1] == 0.0
    )


def finite(m):
    return m[0] == "randomized_response" or (
        m[0] == "subsample" and m[2][0] == "randomized_response"
    )


def outcomes(m):
    """-> [(loss, P)] of (sub-sampled) randomised response."""
    if m[0] == "randomized_response":
        e = m[1]
        return lambda: [
            (exact(e), 1 / (1 + exact(e).exp())),
            (-exact(e), 1 / (1 + (-exact(e)).exp())),
        ]
    rate, (_, e) = m[1], m[2]
    return lambda: [
        (
            (1 + exact(rate) * sign * (sign * exact(e)).expm1() * sign).log(),
            1 / (1 + (sign * exact(e)).exp()),
        )
        for sign in (1, -1)
    ]


def steps_around(mechanism):
    """The mechanisms whose truths a bracket has to hold:
    two for DP-SGD of a fractional number of steps.
    """
    if (
        mechanism[0] == "dp_sgd"
        and mechanism[2] != 1.0
        and mechanism[3] != math.floor(mechanism[3])
    ):
        return [
            (*mechanism[:3], math.floor(mechanism[3])),
            (*mechanism[:3], math.ceil(mechanism[3])),
        ]
    return [mechanism]


__all__ = ["DIRECTIONS", "Truth", "Unavailable", "log_delta", "truth"]
