"""Against slow second computations from the definitions:
integrals, suprema over grids, convex hulls.
"""

import functools

import numpy as np
import pytest

import jaxpriv
from tests import oracles
from tests.tradeoff.checks import CATALOGUE, close, evaluate, variants

PARAMETERS = {
    "gaussian": [(0.4,), (1.3,), (3.0,)],
    "laplace": [(0.3,), (1.5,), (4.0,)],
    "relaxed_laplace": [(0.3,), (1.5,), (4.0,)],
    "relaxed_gaussian": [(1.3, 1.0), (2.5, 2.0), (1.0, 7.0), (4.0, 60.0)],
    "gaussian_limit": [(2.0, 20.0), (4.0, 60.0)],
}
OPTIMAL = [name for name in CATALOGUE if name != "gaussian_limit"]  # likelihood ratio tests
EPSILONS = np.array([-1.2, -0.3, 0.0, 0.2, 0.7, 1.5, 3.0])
LEVELS = np.array([1e-6, 1e-3, 0.02, 0.1, 0.25, 0.4, 0.5, 0.63, 0.8, 0.9, 0.97, 0.999])
RATE = 0.3


@functools.lru_cache(None)
def pair(name, parameters, rate=1.0):
    """The laws, the alternative blended for a rate below 1."""
    laws = oracles.hypotheses(name, *parameters)
    return laws if rate == 1 else oracles.blend(laws, rate)


@functools.lru_cache(None)
def points(name, parameters, rate=1.0):
    """The trade-off curve as points."""
    return oracles.thresholds(pair(name, parameters, rate))


def ours(name, kind, method, argument):
    """Our values, one row for each tuple of parameters."""
    parameters = [np.array(column)[:, None] for column in zip(*PARAMETERS[name], strict=True)]
    argument = None if argument is None else argument[None, :]
    values = evaluate(variants(CATALOGUE[name].make)[kind], method, argument, *parameters)
    return values.reshape(len(PARAMETERS[name]), -1)


def compare(name, kind, method, argument, want, bound):
    """Close to the oracle, but not the same bits: it is another computation."""
    got = ours(name, kind, method, argument)
    want = np.array(want).reshape(len(PARAMETERS[name]), -1)
    close(f"{name} {kind}.{method}", got, want, bound,
          () if argument is None else (argument[None, :],))
    assert np.any(got != want)


def breaks(name, parameters):
    """Where a density has a kink."""
    return {"laplace": (0.0, *parameters), "relaxed_laplace": parameters}.get(name, ())


@pytest.mark.parametrize("rate", [1.0, RATE])
@pytest.mark.parametrize("name", OPTIMAL)
def test_profile_is_the_integral(name, rate):
    """delta(eps) = integral of (q - e^eps p)+, forward and reverse;
    chi-square densities with a pole at 0 cost digits.
    """
    found = [
        [oracles.profile(pair(name, p, rate), e, breaks(name, p)) for e in EPSILONS]
        for p in PARAMETERS[name]
    ]
    bound = np.array(
        [[1e-6 if name == "relaxed_gaussian" and p[1] < 2 else 1e-12] for p in PARAMETERS[name]]
    )
    for direction, want in zip(("forward", "reversed"), np.moveaxis(found, -1, 0), strict=True):
        kind = direction if rate == 1 else f"subsampled {direction}".removesuffix(" forward")
        compare(name, kind, "delta", EPSILONS, want, bound)


@pytest.mark.parametrize("rate", [1.0, RATE])
@pytest.mark.parametrize("name", CATALOGUE)
def test_profile_is_the_conjugate(name, rate):
    """delta(eps) = sup over alpha of 1 - f(alpha) - e^eps alpha, from points alone."""
    if rate < 1 and name == "gaussian_limit":
        return
    chosen = [points(name, p, rate) for p in PARAMETERS[name]]
    suffix = "subsampled" if rate < 1 else "forward"
    compare(name, suffix, "delta", EPSILONS, [oracles.conjugate(a, b, EPSILONS) for a, b in chosen],
            1e-8)
    backwards = {"forward": "reversed", "subsampled": "subsampled reversed"}[suffix]
    compare(name, backwards, "delta", EPSILONS,
            [oracles.conjugate(b, a, EPSILONS) for a, b in chosen], 1e-8)


@pytest.mark.parametrize("rate", [1.0, RATE])
@pytest.mark.parametrize("name", OPTIMAL)
def test_errors_at_a_level(name, rate):
    """beta and power by SciPy's quantile and tails."""
    laws = [pair(name, p, rate) for p in PARAMETERS[name]]
    want = {
        m: [getattr(law.alternative, m)(law.null.isf(LEVELS)) for law in laws]
        for m in ("cdf", "sf")
    }
    kind = "forward" if rate == 1 else "subsampled"
    for method, tail in (("__call__", "cdf"), ("power", "sf")):
        compare(name, kind, method, LEVELS, want[tail], 1e-9 * np.array(want[tail]))


@pytest.mark.parametrize("rate", [1.0, RATE])
@pytest.mark.parametrize("name", OPTIMAL)
def test_inverse(name, rate):
    """The type I error at a type II error, by interpolation between points."""
    kind = "forward" if rate == 1 else "subsampled"
    want = [
        np.interp(LEVELS, beta, alpha)
        for alpha, beta in (points(name, p, rate) for p in PARAMETERS[name])
    ]
    compare(name, kind, "inverse", LEVELS, want, 1e-6 + 0 * LEVELS)


def hulls(name, rate=1.0):
    """The symmetrised curves."""
    return [oracles.symmetrised(*points(name, p, rate)) for p in PARAMETERS[name]]


HULLS = [
    pytest.param(name, marks=pytest.mark.slow if name.endswith("gaussian") else ())
    for name in OPTIMAL
]


@pytest.mark.parametrize("name", HULLS)
def test_symmetric_curve_is_the_hull(name):
    """The lower convex hull of the curve and its mirror image, its complement,
    and its own inverse.
    """
    want = np.array([hull(LEVELS) for hull in hulls(name)])
    compare(name, "symmetric", "__call__", LEVELS, want, 1e-7)
    compare(name, "symmetric", "power", LEVELS, 1 - want, 1e-7)
    compare(name, "symmetric", "inverse", LEVELS, want, 1e-7)


@pytest.mark.parametrize("name", ["laplace", "relaxed_laplace", "gaussian"])
def test_subsampled_symmetric_curve_is_the_hull(name):
    want = np.array([hull(LEVELS) for hull in hulls(name, RATE)])
    compare(name, "subsampled symmetric", "__call__", LEVELS, want, 1e-7)


def mixed_profile(name, parameters, eps):
    """The average of the members' conjugates for the mixture of `variants`."""
    first, *rest = parameters
    members = [points(name, (scale * first, *rest)) for scale in (1.0, 1.7)]
    return 0.25 * oracles.conjugate(*members[0], eps) + 0.75 * oracles.conjugate(*members[1], eps)


@pytest.mark.parametrize("name", ["laplace", "relaxed_laplace", "gaussian"])
def test_mixture(name):
    """Averaged conjugates, and the curve as the supremum of the lines that they support."""
    # straight ones need their exact slopes
    pieces = [s * p[0] for s in (1.0, 1.7) for p in PARAMETERS[name]]
    pieces = {
        "laplace": [*pieces, *np.negative(pieces)],
        "relaxed_laplace": np.log(np.cosh(pieces)),
    }.get(name, [])
    eps = np.sort(np.concatenate([np.linspace(-9, 9, 2401), pieces]))
    deltas = [mixed_profile(name, p, eps) for p in PARAMETERS[name]]
    compare(name, "mixture", "delta", eps[::100], [d[::100] for d in deltas], 1e-8)
    levels = LEVELS[2:]
    want = np.array([oracles.supported(eps, d, levels) for d in deltas])
    compare(name, "mixture", "__call__", levels, want, 3e-5)
    compare(name, "mixture", "power", levels, 1 - want, 3e-5)


@pytest.mark.parametrize("kind", ["forward", "symmetric", "subsampled", "mixture"])
@pytest.mark.parametrize(
    "name", ["laplace", pytest.param("relaxed_laplace", marks=pytest.mark.slow)]
)
def test_gdp_mu(name, kind):
    """The largest Phi^-1(1-alpha) - Phi^-1(beta): never below a grid's, which comes close."""
    rate = RATE if kind == "subsampled" else 1.0
    if kind == "mixture":
        eps = np.linspace(-7, 7, 1201)
        level = np.concatenate([np.geomspace(1e-7, 0.5, 300), 1 - np.geomspace(1e-7, 0.5, 300)])
        curves = [
            (level, oracles.supported(eps, mixed_profile(name, p, eps), level))
            for p in PARAMETERS[name]
        ]
    else:
        curves = [points(name, p, rate) for p in PARAMETERS[name]]
    want = np.array([oracles.largest_mu(*curve) for curve in curves])[:, None]
    got = ours(name, kind, "gdp_mu", None)
    # few supporting lines leave the grid's curve too low
    loose = 1e-2 if kind == "mixture" else 1e-5
    assert np.all(got >= want - (loose if kind == "mixture" else 1e-7))
    close(f"{name} {kind}.gdp_mu", got, want, loose)


@pytest.mark.parametrize("name", ["gaussian", "relaxed_gaussian"])
def test_gdp_mu_of_gaussian_noise(name):
    """No point of the curve asks for more than mu, and the far tail for nearly as much."""
    got = ours(name, "forward", "gdp_mu", None)
    want = np.array([oracles.largest_mu(*points(name, p)) for p in PARAMETERS[name]])[:, None]
    assert np.all(want <= got + 1e-7)
    close(f"{name}.gdp_mu", got, np.array([p[0] for p in PARAMETERS[name]])[:, None], 1e-14 * got)


@pytest.mark.parametrize("kind", ["forward", "subsampled"])
@pytest.mark.parametrize("name", OPTIMAL)
def test_auc(name, kind):
    """The integral of the power over alpha, as that of (1 - cdf_q) p."""
    rate = RATE if kind == "subsampled" else 1.0

    def area(parameters):
        law = pair(name, parameters, rate)
        return oracles.integrate(lambda t: law.alternative.sf(t) * law.null.pdf(t), law.low,
                                 law.high, breaks(name, parameters))

    want = np.array([[area(p)] for p in PARAMETERS[name]])
    singular = np.array(
        [[1e-6 if name == "relaxed_gaussian" and p[1] < 2 else 1e-11] for p in PARAMETERS[name]]
    )
    compare(name, kind, "auc", None, want, singular)


@pytest.mark.parametrize(
    "name", ["laplace", *(pytest.param(name, marks=pytest.mark.slow) for name in OPTIMAL[2:])]
)
def test_symmetric_auc(name):
    """The area above the hull."""
    grid = np.linspace(0, 1, 400001)
    want = np.array([[1 - np.trapezoid(hull(grid), grid)] for hull in hulls(name)])
    compare(name, "symmetric", "auc", None, want, 1e-7)


@pytest.mark.parametrize("name", OPTIMAL)
def test_advantage(name):
    """The largest power - alpha, of both directions and of the sub-sampled record,
    whose is the rate times as large.
    """
    want = np.array([np.max(1 - b - a) for a, b in (points(name, p) for p in PARAMETERS[name])])[
        :, None
    ]
    for kind in ("forward", "reversed", "symmetric"):
        close(f"{name} {kind}.advantage", ours(name, kind, "advantage", None), want, 1e-8)
    close(f"{name} subsampled.advantage", ours(name, "subsampled", "advantage", None), RATE * want,
          1e-8)


def test_releases_by_brute_force():
    """No weighted sum of releases separates the hypotheses better than `gaussian_releases`
    says, plain sums less.
    """
    sensitivities, stds = np.array([1.0, 2.0, 0.3]), np.array([1.0, 4.0, 0.2])
    weights = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 20000)
    reached = (weights @ sensitivities) / np.sqrt(weights**2 @ stds**2)
    best = float(jaxpriv.worst_case.gaussian_releases(sensitivities, stds).gdp_mu())
    assert 0.999 * best < reached.max() <= best
    plain = sensitivities.sum() / np.sqrt((stds**2).sum())
    mean = jaxpriv.worst_case.signal(sensitivities, stds, averaging="mean")
    close("worst_case.signal", mean, plain, 1e-14)
    curve = jaxpriv.relaxed.gaussian_releases(sensitivities, stds, 5.0, averaging="mean")
    close("relaxed.gaussian_releases", curve.gdp_mu(), plain, 1e-14)
    assert plain < best
