"""Random settings over the whole documented domain, log-uniform, with corners drawn on purpose.

A setting is a mechanism (a tuple, see `oracle`), a direction, a method and its argument. Settings
of one batch share their structure, so that one compiled program serves them all: `templates` gives
structures, `draw` fills in numbers.
"""

import math
from dataclasses import dataclass

import numpy as np

from tests.adversary import catalogue

INF = math.inf
METHODS = ("delta", "log_delta", "epsilon", "beta", "advantage", "mu")


@dataclass(frozen=True)
class Setting:
    mechanism: tuple
    direction: str
    method: str
    argument: float  # eps, delta, alpha; 0 for advantage and mu

    def rounded(self, kind):
        """As float32 (or float64) arrays hold it."""
        return Setting(
            rounded(self.mechanism, kind), self.direction, self.method, float(kind(self.argument))
        )


def rounded(mechanism, kind):
    if isinstance(mechanism, tuple):
        return tuple(rounded(m, kind) for m in mechanism)
    return mechanism if isinstance(mechanism, str) else float(kind(mechanism))


class Draw:
    """Numbers with corners; `wide` in [0, 1] is the share of corners."""

    def __init__(self, seed, corners=0.25):
        self.random, self.corners = np.random.default_rng(seed), corners

    def log(self, low, high, *special):
        if special and self.random.random() < self.corners:
            return float(special[self.random.integers(len(special))])
        return float(math.exp(self.random.uniform(math.log(low), math.log(high))))

    def pick(self, *options):
        return options[self.random.integers(len(options))]

    def mu(self):
        return self.log(
            1e-4, 60, 0.0, 1.0, 5e-324, 1e-310, 1e-30, 1e-6, 1e-8, 38.0, 1e3, 1e6, 1e20, 1e300
        )

    def ratio(self):
        return self.log(
            1e-4,
            60,
            0.0,
            1.0,
            5e-324,
            1e-310,
            1e-16,
            1e-6,
            34.227044900178164,
            700.0,
            745.2,
            1e5,
            1e300,
        )

    def rate(self):
        return self.log(1e-6, 1, 1.0, 1e-9, 1e-300, 0.5, 1 - 2.0**-53, 1 - 2.0**-24, 1e-3)

    def small_delta(self):
        return self.log(1e-12, 1, 0.0, 1.0, 1e-7, 1e-310, 1e-300, 1e-16, 1 - 2.0**-53)

    def steps(self, whole):
        n = self.log(1, 1e5, 1.0, 2.0, 3.0, 7.0, 1000.0, 1e6)
        return float(round(n)) if whole else n

    def noise(self):
        return self.log(0.4, 30, 1.0, 0.5, 2.0)

    def dimension(self):
        """As `dim`, and less and more of it."""
        whole = self.random.random() < 0.4
        d = self.log(1, 3000, 1.0, 2.0, 3.0, 2.9, 1.5, 1.0000001, 1000.5)
        return float(round(d)) if whole else d

    def dim(self):
        d = self.log(1, 300, 1.0, 2.0, 3.0)
        return float(round(d)) if self.random.random() < 0.6 else d


def leaf(name, draw):
    if name == "gaussian":
        return (name, draw.mu())
    if name in ("laplace", "relaxed_laplace", "randomized_response"):
        return (name, draw.ratio())
    if name == "approximate_dp":
        return (name, draw.ratio(), draw.small_delta())
    if name == "relaxed_gaussian":
        return (name, draw.log(1e-4, 60, 0.0, 1e-8, 1.0, 30.0), draw.dim())
    if name == "membership":
        d = float(round(draw.log(1, 200, 1.0, 2.0)))
        n = float(round(draw.log(2, 2000, 2.0, 500.0)))
        return (name, d, n, d * draw.log(0.01, 4, 0.0, 1.0))
    raise ValueError(name)


def moderate(name, draw):
    """Members of compositions."""
    if name == "gaussian":
        return (name, draw.log(0.02, 3))
    if name in ("laplace", "randomized_response"):
        return (name, draw.log(1e-3, 3, 1.0, 0.5))
    if name == "approximate_dp":
        return (name, draw.log(1e-3, 3, 1.0), draw.log(1e-10, 1e-2, 0.0))
    return ("dp_sgd", draw.log(0.6, 8), draw.log(1e-3, 0.5), float(round(draw.log(20, 5000))))


def few(draw, most):
    """Whole numbers of steps, half of them up to 30."""
    return float(round(draw.log(1, draw.pick(30, most), 2.0, 3.0, 10.0)))


def calibrated(draw):
    """A target that fails with little noise and holds with much."""
    rate, steps = draw.log(1e-3, 0.5), float(round(draw.log(1, 3000, 2.0, 10.0)))
    return ("calibrated", rate, steps, rate * draw.log(1e-8, 0.2))


LEAVES = (
    "gaussian",
    "laplace",
    "randomized_response",
    "approximate_dp",
    "relaxed_gaussian",
    "relaxed_laplace",
    "membership",
)
FAMILIES = (
    *LEAVES,
    "subsample",
    "mixture",
    "dp_sgd",
    "dp_sgd_full",
    "dp_sgd_fractional",
    "finite_powers",
    "dp_sgd_pairs",
    "mixed",
    "many",
    "relaxed_sgd",
    "dp_sgd_few",
    "replace_one",
    "calibrated",
    *catalogue.CATALOGUE,
)
STEPWISE = (
    "relaxed_sgd",
    "dp_sgd_few",
    "replace_one",
    *catalogue.COMPOSED,
    "allocation",
)  # no beta, for which a hundred truths are too many
CALIBRATED = ("noise",)  # argument epsilon; the delta is the mechanism's last number


def structure(family, draw):
    """What the members of one batch have in common:
    a function without arguments that draws a mechanism.
    """
    if family in LEAVES:
        return lambda: leaf(family, draw)
    if family == "subsample":
        inner = draw.pick(*LEAVES)
        return lambda: ("subsample", draw.rate(), leaf(inner, draw))
    if family == "mixture":
        inner, other, nested = *(draw.pick(*LEAVES[:4]) for _ in range(2)), draw.pick(0, 0, 1)

        def mixed(nested=nested):
            w = (
                max(round(draw.log(1e-6, 1, 0.5, 1.0, 0.25, 0.125) * 2**20), 1) / 2**20
            )  # w + (1 - w) = 1 in float32
            if nested:
                return ("mixture", (mixed(False), mixed(False)), (w, 1 - w))
            return ("mixture", (leaf(inner, draw), leaf(other, draw)), (w, 1 - w))

        return mixed
    if family == "dp_sgd":
        return lambda: (
            "dp_sgd",
            draw.noise(),
            draw.log(1e-4, 1, 0.5, 0.9999, 1 - 2.0**-53),
            draw.steps(True),
        )
    if family == "relaxed_sgd":
        return lambda: (
            "relaxed_sgd",
            draw.noise(),
            draw.log(1e-4, 1, 1.0, 0.5, 0.01, 1 - 2.0**-53),
            few(draw, 3e4),
            draw.dimension(),
        )
    if family == "dp_sgd_few":
        return lambda: ("dp_sgd", draw.noise(), draw.log(1e-6, 1e-2, 1e-3), few(draw, 30))
    if family == "replace_one":
        return lambda: ("replace_one", draw.noise(), draw.log(1e-4, 1, 1.0, 0.5), few(draw, 3000))
    if family == "calibrated":
        return lambda: calibrated(draw)
    if family == "dp_sgd_full":
        return lambda: (
            "dp_sgd",
            draw.noise(),
            1.0,
            draw.log(1e-3, 1e6, 0.5, 0.0, 1.0, 1e-300, 1e9),
        )
    if family == "dp_sgd_fractional":
        return lambda: (
            "dp_sgd",
            draw.noise(),
            draw.log(1e-2, 1),
            draw.log(1.01, 3e3, 1.5, 0.5, 0.0, 2.5),
        )
    if family == "finite_powers":
        inner = draw.pick("randomized_response", "approximate_dp")
        n = float(draw.pick(1, 2, 3, 10, 37, 200))
        return lambda: ("power", leaf(inner, draw), n)
    if family == "dp_sgd_pairs":
        return lambda: ("compose", moderate("dp_sgd", draw), moderate("dp_sgd", draw))
    if family == "mixed":
        others = [
            draw.pick("gaussian", "laplace", "randomized_response", "approximate_dp")
            for _ in range(2)
        ]
        return lambda: (
            "compose",
            moderate(draw.pick("dp_sgd"), draw),
            *(moderate(o, draw) for o in others),
        )
    if family == "many":
        names = [
            draw.pick("gaussian", "laplace", "randomized_response", "dp_sgd", "approximate_dp")
            for _ in range(12)
        ]
        return lambda: (
            "compose",
            ("gaussian", draw.log(0.1, 1)),
            *(moderate(o, draw) for o in names),
        )
    return catalogue.drawn(family, draw)


def scale(mechanism):
    """About the size of the losses, to draw eps from;
    and the exact ends of the losses where they are doubles.
    """
    name, *p = mechanism
    if name == "gaussian":
        return p[0] * (p[0] / 2 + 2), ()
    if name in ("laplace", "randomized_response", "approximate_dp"):
        return p[0], (p[0], -p[0])
    if name == "relaxed_laplace":
        end = p[0] + math.log1p(math.exp(-2 * p[0])) - math.log(2)
        return p[0], (p[0], -p[0], end)
    if name == "relaxed_gaussian":
        return p[0] * (p[0] / 2 + 1), (p[0] * p[0] / 2,)
    if name == "membership":
        d, n, k = p
        end = d / 2 * math.log1p(1 / (n - 1)) + k / 2
        return end, (end, -end)
    if name == "subsample":
        s, ends = scale(p[1])
        low = -math.log1p(-p[0]) if p[0] < 1 else s
        shares = [p[0] * math.expm1(e) for e in ends if e < 700]
        inner = [math.log1p(share) for share in shares if share > -1]
        return max(min(s, s + math.log(p[0])), low if low < 40 else s, p[0] * min(s, 1)), (
            low,
            -low,
            *inner,
            *ends,
        )
    if name == "mixture":
        parts = [scale(m) for m in p[0]]
        return max(s for s, _ in parts), tuple(e for _, ends in parts for e in ends)
    if name == "relaxed_sgd":
        noise, rate, steps, d = p
        spread = math.expm1(min(1 / (2 * d * noise**4), 50))
        mu = min(math.sqrt(steps * spread) * rate, math.sqrt(steps) / noise)
        return mu * (mu / 2 + 2), (-steps * math.log1p(rate * math.expm1(-1 / (2 * noise**2))),)
    if name == "replace_one":
        size, ends = scale(("dp_sgd", p[0] / 2, *p[1:]))
        return size + p[2] * p[1] / p[0], ends
    if name == "dp_sgd":
        noise, rate, steps = p
        mu = math.sqrt(steps) * rate * math.sqrt(max(math.expm1(min(1 / noise**2, 50)), 1e-300))
        mu = min(mu, math.sqrt(steps) / noise)
        return mu * (mu / 2 + 2), (-steps * math.log1p(-rate),) if rate < 1 else ()
    if name == "power":
        s, ends = scale(p[0])
        return s * math.sqrt(p[1]), tuple(e * k for e in ends for k in (p[1], p[1] - 2, p[1] / 2))
    if name != "compose":
        return catalogue.size(mechanism, scale)
    parts = [scale(m) for m in p]
    return math.sqrt(sum(s * s for s, _ in parts)), (sum(max((*ends, 0.0)) for _, ends in parts),)


def heavy(mechanism):
    """Do a few steps with large losses make most of the delta?"""
    stepwise = mechanism[0] in ("dp_sgd", "relaxed_sgd", "replace_one")
    return stepwise and 0 < mechanism[2] * mechanism[3] < 0.3


def argument(method, mechanism, draw):
    if method in ("advantage", "mu"):
        return 0.0
    if method == "noise":
        return draw.log(0.05, 5, 1.0)
    if method == "beta":
        return draw.log(1e-12, 1, 0.0, 1.0, 1e-300, 0.5, 1 - 2.0**-53, 1e-310, 5e-324, 0.999)
    if method == "epsilon":
        return draw.log(1e-30, 1, 0.0, 1.0, 1e-310, 1e-300, 5e-324, 1e-5, 1e-7, 0.5, 1 - 2.0**-53)
    size, ends = scale(mechanism)
    if heavy(mechanism) and draw.random.random() < 0.5:
        return draw.log(min(size / 10, 0.1), 5)
    size = min(max(size, 1e-300), 1e300)
    sign = draw.pick(1, 1, -1)
    if draw.random.random() < draw.corners:
        corners = [
            0.0,
            1e-300,
            -1e-300,
            1.0,
            -1.0,
            5e-324,
            1e-17,
            1e300,
            -1e300,
            700.0,
            -745.0,
            size * 30,
        ]
        near = [e * f for e in ends if math.isfinite(e) for f in (1, 1 + 2.0**-52, 1 - 2.0**-53)]
        return float(draw.pick(*corners, *near, *near, *near))
    return sign * float(size * draw.pick(draw.random.uniform(0, 1.3), draw.log(1e-3, 8)))


def batch(family, count, seed, methods=METHODS, corners=0.25):
    """`count` settings of one structure, one direction and one method."""
    draw = Draw(seed, corners)
    make = structure(family, draw)
    direction = draw.pick("forward", "reverse", "symmetric")
    if family == "many" or family == "mixed":
        direction = draw.pick("forward", "forward", "reverse", "symmetric")
    if family in STEPWISE:
        methods = [m for m in methods if m != "beta"]
    if family == "calibrated":
        methods, direction = CALIBRATED, "symmetric"
    method = methods[draw.random.integers(len(methods))]
    out = []
    for _ in range(count):
        mechanism = make()
        out.append(Setting(mechanism, direction, method, argument(method, mechanism, draw)))
    return out
