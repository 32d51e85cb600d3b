"""Mechanisms of the catalogue as they are defined: laws of labels, each with a pair on the line
that is seen besides, or with none.

`law(mechanism)` gives [(P, Q, pair)] at the working precision, P the null's probability of the
label. Whole numbers that are no arrays in the package (categories, sensitivities, ...) are written
as strings: ("k_ary_randomized_response", "10", epsilon). Compositions are products of labels, by
multiplication; two pairs that are both seen are integrated over (`dealt.Both`).
"""

import math

from flint import arb, fmpq, fmpz

from tests.adversary.balls import exact, one, zero
from tests.adversary.chi_square import Unavailable
from tests.adversary.dealt import Both, allocation, of_the_largest
from tests.adversary.grouped import Group
from tests.adversary.lines import Larger, Line, largest, trivial

MOST = 4000
EXCHANGED = (
    "kary",
    "unary",
    "rappor",
    "discrete_laplace",
    "discrete_gaussian",
    "exponential",
    "noisy_max",
    "replaced",
    "cut_replaced",
    "worst_of",
    "group",
    "shuffled_replaced",
    "points",
)  # the same both ways


def gaussian(s):
    return Line([(one(), zero())], [(one(), s)])


def mixed(shifts, weights):
    return Line([(one(), zero())], list(zip(weights, shifts)))


def sampled(s, q):
    return mixed([zero(), s], [1 - q, q])


def binomial(n, q):
    """The masses of Bin(n, q)."""
    return [fmpz(math.comb(n, k)) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]


def bits(keep, other):
    """One report of unary encoding of a value against another: both bits, the own one set with
    probability `keep`, the other one with `other`.
    """
    out = []
    for own in (0, 1):
        for else_ in (0, 1):
            p = (keep if own else 1 - keep) * (other if else_ else 1 - other)
            q = (other if own else 1 - other) * (keep if else_ else 1 - keep)
            out.append((p, q, None))
    return out


def law(mechanism):
    name, *p = mechanism
    return LAWS[name](*p)


def kary(k, eps):
    k, e = int(k), exact(eps).exp()
    whole = e + k - 1
    return [(e / whole, 1 / whole, None), (1 / whole, e / whole, None)] + (
        [((k - 2) / whole, (k - 2) / whole, None)] if k > 2 else []
    )


def unary(kind, eps):
    if kind == "optimised":
        return bits(arb(1) / 2, 1 / (1 + exact(eps).exp()))
    keep = 1 / (1 + (-exact(eps) / 2).exp())
    return bits(keep, 1 / (1 + (exact(eps) / 2).exp()))


def rappor(hashes, noise):
    """Each of the bits that a value sets is replaced by a fair coin with probability f."""
    f = exact(noise)
    return power(bits(1 - f / 2, f / 2), int(hashes))


def discrete_laplace(sensitivity, scale):
    """Numbers up to 0 are one label, and so are those from the sensitivity on."""
    s, r = int(sensitivity), (-1 / exact(scale)).exp()
    if s > MOST:
        raise Unavailable("a large sensitivity")
    top = (1 - r) / (1 + r)
    end = 1 / (1 + r)  # P(X <= 0)
    middle = [(top * r**x, top * r ** (s - x), None) for x in range(1, s)]
    return [(end, end * r**s, None), *middle, (end * r**s, end, None)]


def discrete_gaussian(sensitivity, sigma):
    """All whole numbers whose mass is no less than 2^-(working precision) of what matters."""
    s, variance = int(sensitivity), exact(sigma) ** 2
    spread = float(sigma) * math.sqrt(2 * 0.7 * REACH[0])
    if s + 2 * spread > 30_000:
        raise Unavailable("many whole numbers")
    reach = int(spread) + s + 3
    c = (-1 / (2 * variance)).exp()
    square = c * c
    weights, ratio, w = [one()], c, one()
    for _ in range(reach + s + 1):
        w = w * ratio
        ratio = ratio * square
        weights.append(w)
    norm = weights[0] + 2 * sum(weights[1:], zero())
    rest = 2 * w * ratio / (1 - ratio)
    left = rest.union(zero())
    norm += left
    found = [
        (weights[abs(x)] / norm, weights[abs(x - s)] / norm, None) for x in range(-reach, reach + s)
    ]
    return [*found, (left, left, None)]


REACH = [1500.0]  # -log2 of the masses that are left out, about


def black_box(eps, delta=0.0):
    e, d = exact(eps), exact(delta)
    kept = 1 - d
    share = 1 / (1 + (-e).exp())
    other = 1 / (1 + e.exp())
    found = [(kept * other, kept * share, None), (kept * share, kept * other, None)]
    return found + ([(d, zero(), None), (zero(), d, None)] if d > 0 else [])


def replaced(noise, rate):
    m, q = 1 / exact(noise), exact(rate)
    return [(one(), one(), Line([(1 - q, zero()), (q, -m)], [(1 - q, zero()), (q, m)]))]


def tails(size, batch, q):
    """P(K < B), P(K >= B), and how often a cut batch has the record, K of n - 1 others drawn."""
    masses = binomial(size - 1, q)
    cut = sum(masses[batch:], zero())
    kept = sum((masses[k] * q * batch / (k + 1) for k in range(batch, size)), zero())
    return sum(masses[:batch], zero()), cut, kept / cut


def cut(how):
    def made(size, batch, noise, rate):
        m, q, size, batch = 1 / exact(noise), exact(rate), int(size), int(batch)
        if size > MOST:
            raise Unavailable("many records")
        pair = replaced(noise, rate)[0][2] if how == "replaced" else sampled(m, q)
        if batch >= size:
            return [(one(), one(), pair)]
        whole, often, kept = tails(size, batch, q)
        other = sampled(2 * m, kept)
        if how != "added":
            other = Larger(other)
        return [(whole, whole, pair), (often, often, other)]

    return made


def user_level(records, noise, rate):
    masses = binomial(int(records), exact(rate))
    m = 1 / exact(noise)
    return [(one(), one(), mixed([m * k for k in range(len(masses))], masses))]


def gaussian_mixture(*numbers):
    half = len(numbers) // 2
    weights = [exact(w) for w in numbers[half:]]
    whole = sum(weights, zero())
    shifts = [exact(s) for s in numbers[:half]]
    return [(one(), one(), mixed(shifts, [w / whole for w in weights]))]


def mixture(members, weights):
    weights = [exact(w) for w in weights]
    whole = sum(weights, zero())
    return [
        (w / whole * p, w / whole * q, pair)
        for m, w in zip(members, weights) for p, q, pair in law(m)
    ]


class Spread:
    """Of an interval of losses of length r the two-point law whose profile is the largest."""

    def __init__(self, r):
        self.r = r

    def profile(self, eps, forward):
        """sup over t of p (e^t - e^eps), p e^t + (1-p) e^(t-r) = 1:
        p = (1 - e^(t-r))/(e^t - e^(t-r)). In y = e^t: (e^r - y)(y - e^eps)/(y (e^r - 1)), largest
        where y^2 = e^(r + eps), so t = (r + eps)/2.
        """
        del forward
        if self.r.is_zero() or eps <= -self.r:
            return trivial(eps)
        if eps >= self.r:
            return zero(), one()
        t = (self.r + eps) / 2
        top, bottom = t.exp(), (t - self.r).exp()
        delta = (1 - bottom) / (top - bottom) * (top - eps.exp())
        return delta, 1 - delta


class Between:
    """What an attack reaches and what a theorem allows: a ball from the one to the other."""

    def __init__(self, steps, low, high, signal):
        self.steps, self.low, self.high, self.signal = steps, low, high, signal

    def profile(self, eps, forward):
        floor, _ = gaussian(self.signal / arb(self.steps).sqrt()).profile(eps, forward)
        for pair in ((self.low, self.high), (self.high, self.low)):
            if forward == (pair[0] is self.low):
                floor = floor.max(of_the_largest(self.steps, *pair, eps))
        delta, complement = gaussian(self.signal).profile(eps, forward)
        return delta.union(floor.min(delta)), complement.union(complement.max(1 - floor))


def shuffled(adjacency):
    def made(steps, epochs, noise):
        m = 1 / exact(noise)
        if epochs != "1":
            raise Unavailable("several epochs")
        zeroed = adjacency == "zero_out"
        # the largest sum: 2 m with the record, m where it is zeroed, 0 where another has its place
        signal = m if zeroed else 2 * m
        return [(one(), one(), Between(int(steps), m if zeroed else zero(), 2 * m, signal))]

    return made


def spread(r):
    return [(one(), one(), Spread(r))]


def exponential(monotone, eps):
    return spread(exact(eps) / (2 if monotone == "monotone" else 1))


def noisy_max(noise, monotone, eps):
    r = exact(eps) / (2 if monotone == "monotone" else 1)
    return spread(r) if noise == "gumbel" else black_box(r)


class Envelope:
    """The largest of several profiles, in both directions."""

    def __init__(self, laws):
        self.laws = laws

    def profile(self, eps, forward):
        del forward
        return largest([total(one_, eps, way) for one_ in self.laws for way in (True, False)])


def compose(*members):
    found = [(one(), one(), None)]
    for m in members:
        found = product(found, law(m))
    return found


def product(first, second):
    if len(first) * len(second) > 40_000:
        raise Unavailable("many labels")
    return [
        (a * c, b * d, seen(e, f)) for a, b, e in first for c, d, f in second
    ]


def seen(first, second):
    if first is None or second is None:
        return first or second
    if isinstance(first, Line) and isinstance(second, Line):
        one_, two = first.mu(), second.mu()
        if one_ is not None and two is not None:
            return gaussian((one_**2 + two**2).sqrt())
    return Both(first, second)


def power(found, n):
    """n times a law, equal ratios joined where it has labels alone."""
    n = int(n)
    if len(found) == 1 and isinstance(found[0][2], Line) and found[0][2].mu() is not None:
        return [(one(), one(), gaussian(found[0][2].mu() * arb(n).sqrt()))]
    out = [(one(), one(), None)]
    if any(pair is not None for *_, pair in found):
        if n > 2:
            raise Unavailable("many pairs")
        for _ in range(n):
            out = product(out, found)
        return out
    parts = [(n, one(), one())]
    for k, (p, q, _) in enumerate(found):
        last = k == len(found) - 1
        parts = [
            (left - j, a * fmpz(math.comb(left, j)) * p**j, b * fmpz(math.comb(left, j)) * q**j)
            for left, a, b in parts for j in ([left] if last else range(left + 1))
        ]
        if len(parts) > 60_000:
            raise Unavailable("many labels")
    return [(a, b, None) for _, a, b in parts]


def subsample(rate, member):
    """The alternative takes part with probability `rate`, of labels alone or one Gaussian pair."""
    q, found = exact(rate), law(member)
    if len(found) == 1 and isinstance(found[0][2], Line) and found[0][2].mu() is not None:
        return [(one(), one(), sampled(found[0][2].mu(), q))]
    if any(pair is not None for *_, pair in found):
        raise Unavailable("a sampled pair")
    return [(a, (1 - q) * a + q * b, None) for a, b, _ in found]


def group(size, member):
    if member[0] == "gaussian":
        return [(one(), one(), gaussian(exact(member[1]) * int(size)))]
    return [(one(), one(), Group(int(size), law(member)))]


def exchanged(member):
    """Null and alternative have changed places; of a pair on the line, seen in a mirror, the ratio
    grows again.
    """
    return [(q, p, pair and mirrored(pair)) for p, q, pair in law(member)]


def mirrored(pair):
    if not isinstance(pair, Line):
        raise Unavailable("a pair that is no line, exchanged")
    return Line(*([(w, -s) for w, s in law_] for law_ in (pair.alternatives, pair.nulls)))


def points(*numbers):
    """Steps of the least of all lines that a power may not cross, between all their meetings."""
    half = len(numbers) // 2
    lines = [(zero(), one())]  # slope, height at 0
    for e, d in zip(numbers[:half], numbers[half:]):
        e, d = exact(float(e)), exact(float(d))
        lines += [(e.exp(), d), ((-e).exp(), 1 - (-e).exp() * (1 - d))]
    places = [zero(), one()]
    for k, (a, b) in enumerate(lines):
        slopes = [a - c for c, _ in lines[:k]]
        if any(gap.contains(0) and not gap.is_zero() for gap in slopes):
            raise Unavailable("slopes that no precision tells apart")
        places += [(d - b) / g for (_, d), g in zip(lines, slopes) if not g.is_zero()]
    inside = sorted((x.mid() for x in places if 0 <= x.mid() <= 1), key=lambda x: fmpq_of(x))
    heights = [min((a * x + b for a, b in lines), key=lambda y: fmpq_of(y.mid())) for x in inside]
    found = [(zero(), heights[0], None)]
    for x, y, g, h in zip(inside, inside[1:], heights, heights[1:]):
        found.append((y - x, (h - g).max(zero()), None))
    return found


def fmpq_of(ball):
    return ball.man_exp()[0] * fmpq(2) ** int(ball.man_exp()[1])


def losses(*numbers):
    """What is missing of either law has an infinite loss."""
    half = len(numbers) // 2
    loss, share = ([exact(float(x)) for x in part] for part in (numbers[:half], numbers[half:]))
    found = [((-gap).exp() * q, q, None) for gap, q in zip(loss, share)]
    rest = [(1 - sum((part[side] for part in found), zero())).max(zero()) for side in (0, 1)]
    return [*found, (rest[0], zero(), None), (zero(), rest[1], None)]


LAWS = {
    "points": points,
    "losses": losses,
    "group": group,
    "reversed": exchanged,
    "subsample": subsample,
    "dp_sgd": lambda *p: LAWS["zeroed"](*p),
    "allocation": allocation,
    "gaussian": lambda mu: [(one(), one(), gaussian(exact(mu)))],
    "randomized_response": black_box,
    "approximate_dp": black_box,
    "kary": kary,
    "unary": unary,
    "rappor": rappor,
    "discrete_laplace": discrete_laplace,
    "discrete_gaussian": discrete_gaussian,
    "exponential": exponential,
    "noisy_max": noisy_max,
    "replaced": lambda noise, rate, steps: power(replaced(noise, rate), steps),
    "zeroed": lambda noise, rate, steps: power(
        [(one(), one(), sampled(1 / exact(noise), exact(rate)))], steps
    ),
    "cut_added": lambda *p: power(cut("added")(*p[:4]), p[4]),
    "cut_replaced": lambda *p: power(cut("replaced")(*p[:4]), p[4]),
    "cut_zeroed": lambda *p: power(cut("zeroed")(*p[:4]), p[4]),
    "shuffled": shuffled("zero_out"),
    "shuffled_replaced": shuffled("replace_one"),
    "user_level": lambda records, noise, rate, steps: power(
        user_level(records, noise, rate), steps
    ),
    "gaussian_mixture": gaussian_mixture,
    "mixture": mixture,
    "worst_of": lambda *members: [(one(), one(), Envelope([law(m) for m in members]))],
    "compose": compose,
    "power": lambda member, n: power(law(member), n),
}
OLDER = ("gaussian", "randomized_response", "approximate_dp", "dp_sgd")
OLDER += ("subsample", "mixture", "compose", "power")
LOOSE = {"shuffled", "shuffled_replaced", "allocation"}  # no better at a higher precision
DEFINED = set(LAWS) - set(OLDER)  # names that no other oracle knows


def total(found, eps, forward):
    """(delta, 1 - delta) of a law of labels at a ball eps."""
    delta, complement = zero(), zero()
    for p, q, pair in found:
        own, other = (q, p) if forward else (p, q)
        if own.is_zero():
            continue
        if other.is_zero():
            delta += own
            continue
        if pair is None:
            part, level = own - eps.exp() * other, own
            if part > 0:
                delta += part
                complement += eps.exp() * other
            elif part <= 0:
                complement += own
            else:
                hull = zero().union(part.upper().min(own.upper()))
                delta += hull
                complement += (level - hull).max(zero())
            continue
        gap = eps if (own - other).is_zero() else eps - (own / other).log()
        d, c = pair.profile(gap, forward)
        delta += own * d
        complement += own * c
    return delta, complement
