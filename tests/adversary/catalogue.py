"""Curves of `jaxpriv.worst_case` beyond the older ones: how the package makes them, what random
settings of them are, and how large their losses are. Numbers that are whole and no arrays are
written as strings (`definitions`).
"""

import math

import jax.numpy as jnp
import numpy as np

import jaxpriv
from jaxpriv.bridges import points, privacy_loss

W = jaxpriv.worst_case
CUT = {"cut_added": "add_remove", "cut_replaced": "replace_one", "cut_zeroed": "zero_out"}
SHUFFLED = {"shuffled": "zero_out", "shuffled_replaced": "replace_one"}


def curve(name, p, take, inner):
    """The package's curve; `take()` gives the numbers one after the other, `inner` makes members'
    curves of what is left.
    """
    if name == "kary":
        return W.k_ary_randomized_response(take(), int(p[0]))
    if name == "unary":
        return W.unary_encoding(take(), optimised=p[0] == "optimised")
    if name == "rappor":
        return W.rappor(take(), int(p[0]))
    if name == "discrete_laplace":
        return W.discrete_laplace(take(), int(p[0]))
    if name == "discrete_gaussian":
        return W.discrete_gaussian(take(), int(p[0]))
    if name == "exponential":
        return W.exponential_mechanism(take(), p[0] == "monotone")
    if name == "noisy_max":
        return W.report_noisy_max(take(), p[0], p[1] == "monotone")
    if name == "replaced":
        return W.subsampled_gaussian(take(), take(), take(), adjacency="replace_one")
    if name == "zeroed":
        return W.subsampled_gaussian(take(), take(), take(), adjacency="zero_out")
    if name in CUT:
        sizes = int(p[0]), int(p[1])
        return W.truncated_gaussian(take(), take(), take(), *sizes, adjacency=CUT[name])
    if name == "user_level":
        return W.user_level(take(), take(), take(), int(p[0]))
    if name == "allocation":
        return W.random_allocation(take(), int(p[0]))
    if name in SHUFFLED:
        return W.shuffled_gaussian(take(), int(p[0]), int(p[1]), adjacency=SHUFFLED[name])
    if name == "gaussian_mixture":
        numbers = [take() for _ in p]
        stack = np.stack if all(isinstance(x, float | np.ndarray) for x in numbers) else jnp.stack
        half = len(p) // 2
        return W.gaussian_mixture(stack(numbers[:half], -1), stack(numbers[half:], -1))
    if name in ("points", "losses"):
        half = len(p) // 2
        numbers = [float(x) for x in p]
        make = points.curve if name == "points" else privacy_loss.curve
        return make(numbers[:half], numbers[half:])
    if name == "worst_of":
        return jaxpriv.worst_of(*(inner(m, take) for m in p))
    if name == "group":
        return inner(p[1], take).group(int(p[0]))
    if name == "reversed":
        return inner(p[0], take).reversed()
    raise ValueError(name)


def noise(draw):
    return draw.log(0.2, 50, 1.0, 0.05, 1e-3, 1e3, 1e6)


def rate(draw):
    return draw.log(1e-5, 1, 1.0, 1e-300, 1e-9, 0.5, 1 - 2.0**-53)


def range_(draw):
    return draw.log(1e-4, 40, 0.0, 1.0, 1e-300, 1e-16, 700.0, 745.2)


def weights(draw, count):
    """That sum to 1, of few bits."""
    parts = np.round(draw.random.dirichlet(np.ones(count)) * 2**18) / 2**20 * 4
    parts[-1] = 1 - parts[:-1].sum()
    return tuple(float(x) for x in np.abs(parts))


def known_points(draw):
    """Numbers that are constants of the package, as strings."""
    count = draw.pick(1, 2, 2, 5, 12)
    deltas = [draw.log(1e-12, 1, 0.0, 1.0, 1e-300, 1e-3) for _ in range(count)]
    return "points", *(repr(float(x)) for x in [*(range_(draw) for _ in deltas), *deltas])


def saved_losses(draw):
    """Of probabilities that leave some of both laws to infinite losses, or none."""
    count = draw.pick(1, 2, 3, 8)
    loss = [draw.log(1e-3, 20, 0.0, 1.0) * draw.pick(1, 1, -1) for _ in range(count)]
    share = draw.random.dirichlet(np.ones(count)) * draw.pick(0.5, 0.99, 1 - 1e-9)
    fall = max(float(np.sum(share * np.exp(-np.array(loss)))), 1.0) * draw.pick(1.0, 1 + 1e-9, 2.0)
    return "losses", *map(repr, loss), *(repr(float(x)) for x in share / fall / (1 + 1e-12))


def drawn(family, draw):
    """A function that draws a mechanism of the family: they share all their strings."""
    if family == "kary":
        k = str(draw.pick(2, 3, 10, 1000, 10**9))
        return lambda: ("kary", k, range_(draw))
    if family == "unary":
        how = draw.pick("symmetric", "optimised")
        return lambda: ("unary", how, range_(draw))
    if family == "rappor":
        return lambda: ("rappor", "1", draw.log(1e-4, 1, 1.0, 1e-9, 1 - 2.0**-53, 0.5))
    if family == "discrete_laplace":
        s = str(draw.pick(1, 1, 2, 7, 100))
        return lambda: ("discrete_laplace", s, draw.log(1e-3, 1e6, 1e-3, 1e6, 1.0))
    if family == "discrete_gaussian":
        s = str(draw.pick(1, 1, 2, 7, 30))
        return lambda: ("discrete_gaussian", s, draw.log(0.05, 60, 1e-3, 4.0, 0.3, 1.0))
    if family == "exponential":
        how = draw.pick("monotone", "any")
        return lambda: ("exponential", how, range_(draw))
    if family == "noisy_max":
        by, how = draw.pick("gumbel", "laplace", "exponential"), draw.pick("monotone", "any")
        return lambda: ("noisy_max", by, how, range_(draw))
    if family in ("replaced", "zeroed"):
        return lambda: (family, noise(draw), rate(draw), 1.0)
    if family == "cut":
        name, size = draw.pick(*CUT), draw.pick(2, 5, 20, 300)
        sizes = str(size), str(max(1, int(size * draw.pick(0.0, 0.1, 0.5, 0.9, 1.0))))
        return lambda: (name, *sizes, noise(draw), rate(draw), 1.0)
    if family == "user_level":
        k = str(draw.pick(2, 3, 10, 60))
        return lambda: ("user_level", k, noise(draw), rate(draw), 1.0)
    if family == "gaussian_mixture":
        k = draw.pick(1, 2, 3, 5)
        return lambda: (
            "gaussian_mixture",
            *(draw.log(1e-3, 10, 0.0, 1.0, 1e-9, 38.0) for _ in range(k)),
            *weights(draw, k),
        )
    if family == "allocation":
        t = draw.pick("1", "2")
        return lambda: ("allocation", t, draw.log(0.3, 8, 1.0))
    if family == "shuffled":
        name, t = draw.pick(*SHUFFLED), str(draw.pick(1, 2, 3, 30, 1000, 10**6))
        return lambda: (name, t, "1", draw.log(0.1, 50, 1.0))
    if family == "told":  # which one it is, is known
        members = [drawn(draw.pick(*SINGLE), draw) for _ in range(2)]
        return lambda: ("mixture", tuple(m() for m in members), weights(draw, 2))
    if family in ("points", "losses"):
        found = (known_points if family == "points" else saved_losses)(draw)
        return lambda: found
    if family == "worst_of":
        members = [drawn(draw.pick(*SINGLE), draw) for _ in range(2)]
        return lambda: ("worst_of", *(m() for m in members))
    if family == "group":
        member, k = drawn(draw.pick(*GROUPED), draw), str(draw.pick(1, 2, 3))
        return lambda: ("group", k, member())
    if family == "sampled_labels":
        member = drawn(draw.pick(*GROUPED[:3]), draw)
        return lambda: ("subsample", rate(draw), member())
    if family == "two_steps":
        inner = drawn(draw.pick("replaced", "user_level", "gaussian_mixture"), draw)
        return lambda: ("power", inner(), 2.0)
    if family == "pipeline":
        members = [modest(draw.pick(*MODEST), draw) for _ in range(draw.pick(1, 2))]
        last = modest(draw.pick(*ON_THE_LINE), draw)
        return lambda: ("compose", *(m() for m in members), last())
    if family == "both_ways":
        members = [modest(draw.pick(*ONE_WAY), draw) for _ in range(2)]
        return lambda: ("compose", members[0](), ("reversed", members[1]()))
    if family == "label_powers":
        inner = modest(draw.pick("kary", "unary", "rappor", "discrete_laplace", "points"), draw)
        n = draw.pick(2, 7, 20)
        return lambda: ("power", inner(), float(n))
    raise ValueError(family)


HOW = {
    "kary": ("3", "10"),
    "unary": ("symmetric", "optimised"),
    "rappor": ("1", "2"),
    "discrete_laplace": ("1", "2", "3"),
    "cut": tuple(CUT),
}


def modest(name, draw):
    """Members of compositions: losses that matter to each other."""
    how = draw.pick(*HOW[name]) if name in HOW else None
    known = "points", *map(repr, (0.1, draw.log(0.2, 3, 1.0), draw.log(1e-4, 0.1), 1e-5))

    def e():
        return draw.log(0.01, 3, 1.0)

    def s():
        return draw.log(0.4, 20, 1.0)

    def q():
        return draw.log(1e-4, 1, 1.0, 0.5, 0.01)

    return {
        "gaussian": lambda: ("gaussian", draw.log(0.02, 3)),
        "randomized_response": lambda: ("randomized_response", e()),
        "approximate_dp": lambda: ("approximate_dp", e(), draw.log(1e-10, 1e-2, 0.0)),
        "kary": lambda: ("kary", how, e()),
        "unary": lambda: ("unary", how, e()),
        "points": lambda: known,
        "rappor": lambda: ("rappor", how, draw.log(0.1, 0.99, 0.5)),
        "discrete_laplace": lambda: ("discrete_laplace", how, s()),
        "exponential": lambda: ("exponential", "any", e()),
        "replaced": lambda: ("replaced", s(), q(), 1.0),
        "zeroed": lambda: ("zeroed", s(), q(), 1.0),
        "cut": lambda: (how, "50", "10", s(), q(), 1.0),
        "user_level": lambda: ("user_level", "3", s(), q(), 1.0),
        "gaussian_mixture": lambda: ("gaussian_mixture", 0.0, s() / 4, s() / 2, *weights(draw, 3)),
    }[name]


GROUPED = ("kary", "unary", "discrete_laplace", "rappor")
SINGLE = (*GROUPED, "exponential", "noisy_max", "replaced", "zeroed", "user_level")
SINGLE += ("gaussian_mixture", "discrete_gaussian")
MODEST = ("randomized_response", "approximate_dp", "kary", "unary", "rappor", "discrete_laplace")
MODEST += ("points",)
ON_THE_LINE = ("gaussian", "exponential", "replaced", "zeroed", "cut", "user_level")
ON_THE_LINE += ("gaussian_mixture",)
ONE_WAY = ("zeroed", "user_level", "gaussian_mixture", "approximate_dp", "gaussian")
RATED = (*CUT, "replaced", "zeroed", "user_level")  # with a rate before their steps
ONE_STEP = (*SINGLE, "cut", "shuffled", "told", "worst_of", "group", "sampled_labels")
CONSTANT = ("points", "losses")  # programs are compiled for each of them
COMPOSED = ("pipeline", "label_powers", "two_steps", "both_ways")
CATALOGUE = (*ONE_STEP, *CONSTANT, *COMPOSED, "allocation")


def size(mechanism, scale):
    """About the size of the losses, and the ends of them that are known."""
    name, *p = mechanism
    if name in ("kary", "unary", "exponential"):
        return p[1], (p[1], -p[1], p[1] / 2)
    if name == "noisy_max":
        return p[2], (p[2], -p[2], p[2] / 2)
    if name in ("points", "losses"):
        ends = tuple(float(x) for x in p[: len(p) // 2])
        return max(max(ends), 1e-300), (*ends, *(-e for e in ends))
    if name == "rappor":
        e = 2 * int(p[0]) * math.log((2 - p[1]) / p[1])
        return e, (e, -e)
    if name == "discrete_laplace":
        e = int(p[0]) / p[1]
        return e, (e, -e, (int(p[0]) - 2) / p[1])
    if name == "discrete_gaussian":
        s = int(p[0])
        return s / p[1] * (s / p[1] + 3), ((3 - s / 2) * s / p[1] ** 2,)
    if name in ("replaced", "zeroed"):
        return scale(("dp_sgd", *p))
    if name in CUT:
        return scale(("dp_sgd", *p[2:]))
    if name == "user_level":
        return scale(("dp_sgd", p[1] / math.sqrt(int(p[0])), *p[2:]))
    if name == "allocation":
        return scale(("gaussian", 1 / p[1]))
    if name in SHUFFLED:
        return scale(("gaussian", 1 / p[2]))
    if name == "gaussian_mixture":
        half = len(p) // 2
        mean = sum(s * w for s, w in zip(p[:half], p[half:]))
        least = min(p[:half])
        end = -math.log(p[half + p.index(least)]) if p[half + p.index(least)] > 0 else 1.0
        return scale(("gaussian", mean))[0], (end, -end)
    if name == "group":
        whole, ends = scale(p[1])
        return int(p[0]) * whole, tuple(int(p[0]) * e for e in ends)
    parts = [scale(m) for m in p]
    return max(s for s, _ in parts), tuple(e for _, ends in parts for e in ends)
