"""The full (Neyman-Pearson optimal) adversary:
knows everything but whether the record took part.
"""

import numpy as np

from jaxpriv._checks import (
    ADJACENCIES,
    NONNEGATIVE,
    POSITIVE,
    RATE,
    UNIT,
    Domain,
    as_parameter,
    check_choice,
    check_number,
    check_whole,
    is_traced,
)
from jaxpriv._derived import combined_signal, derived, grown, number, reciprocal
from jaxpriv.catalogue.local import k_ary_randomized_response as k_ary_randomized_response
from jaxpriv.catalogue.local import rappor as rappor
from jaxpriv.catalogue.local import unary_encoding as unary_encoding
from jaxpriv.catalogue.noise import discrete_gaussian as discrete_gaussian
from jaxpriv.catalogue.noise import discrete_laplace as discrete_laplace
from jaxpriv.catalogue.selection import exponential_mechanism as exponential_mechanism
from jaxpriv.catalogue.selection import report_noisy_max as report_noisy_max
from jaxpriv.composition.steps import together
from jaxpriv.curve import Curve
from jaxpriv.mixing import as_weights
from jaxpriv.tradeoff.allocation import Allocation
from jaxpriv.tradeoff.attacked import Attacked
from jaxpriv.tradeoff.cut_batches import CutGaussian, CutReplaced, CutZeroed
from jaxpriv.tradeoff.discrete import BlackBox
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.laplace_pairs import LaplaceShift
from jaxpriv.tradeoff.largest_sum import LargestSum
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.shifts import Components, Owned

STEPS = Domain(1.0, 1e9, "[1, 1e9]", 1.0)
ASSUMPTION = (
    "The adversary knows every other record, the query and the noise, "
    "and tests the exact likelihoods."
)


def gaussian(mu):
    """Gaussian noise: G_mu(alpha) = Phi(Phi^-1(1-alpha) - mu), whatever the query's dimension.

    Args:
        mu: `Float[Array, "..."]` in [0, inf): L2 sensitivity over noise standard deviation, sqrt(n)
            times that for n releases.

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if mu is outside its range. Source: Dong, Roth, Su 2022, Theorem 2.7; Kaissis
    et al. 2022 (arXiv:2210.13028), Eq. (19).

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.gaussian(0.5).epsilon(1e-4):.4f}")
        1.6981
    """
    return Curve(NormalShift(as_parameter("mu", mu, NONNEGATIVE)))


def laplace(ratio):
    """Laplace noise: pure eps-DP with eps = ratio, and the smaller profile
    delta(eps) = 1 - exp((eps - ratio)/2) below.

    Args:
        ratio: `Float[Array, "..."]` in [0, inf): L1 sensitivity over noise scale b.

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if ratio is outside its range. Source: Dong, Roth, Su 2022, Lemma A.6.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.laplace(1.0).delta(0.5):.4f}")
        0.2212
    """
    return Curve(LaplaceShift(as_parameter("ratio", ratio, NONNEGATIVE)))


def randomized_response(epsilon):
    """Randomised response, the pure epsilon-DP mechanism: the truth with probability
    e^epsilon/(1 + e^epsilon), else the lie.

    Every epsilon-DP mechanism is at least as private, also in composition.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).

    Returns: a `Curve`, the same in both directions.
    Raises: ValueError if epsilon is outside its range.
        Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.randomized_response(1.0).advantage():.4f}")
        0.4621
    """
    return approximate_dp(epsilon, 0.0)


def approximate_dp(epsilon, delta):
    """A mechanism of which only (epsilon, delta)-DP is known:
    the worst one there is, a black box to compose with others.

    With probability delta it tells everything, else it is randomised response.

    Args:
        epsilon: `Float[Array, "..."]` in [0, inf).
        delta: `Float[Array, "..."]` in [0, 1].

    Returns: the `Curve` f(alpha) = max(0, 1 - delta - e^epsilon alpha, e^-epsilon
        (1 - delta - alpha)), the same both ways.
    Raises: ValueError for values outside their range. Source: Wasserman and Zhou 2010;
        Kairouz, Oh, Viswanath 2015.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.approximate_dp(0.1, 1e-6).compose(10).delta(1.0):.3g}")
        1e-05
    """
    return Curve(
        BlackBox(as_parameter("epsilon", epsilon, NONNEGATIVE), as_parameter("delta", delta, UNIT))
    )


def subsampled_gaussian(
    noise_multiplier, sampling_rate, steps, *, adjacency="add_remove", sampling="poisson"
):
    """DP-SGD: `steps` Gaussian steps, each on a sample of the records.

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf):
            noise standard deviation over the clipping norm.
        sampling_rate: `Float[Array, "..."]` in (0, 1]: probability that a record takes part in a
            step; for samples of fixed size that size over the number of records (the smaller
            number, if they differ).
        steps: `Float[Array, "..."]` in [0, inf); the cost does not depend on it. Estimates follow a
            fractional number continuously, bounds hold for both whole numbers next to it (at rate 1
            for the number itself).
        adjacency: "add_remove" one record; "replace_one" by another; or "zero_out": put a null
            record in its place, whose gradient is zero, so that the number of records may be
            published (docs/certified.md).
        sampling: "poisson", each record on its own;
            or "fixed_size", without replacement, anew in each step.

    Returns: add/remove, and zero-out by Poisson: the forward `Curve` (remove one record, the larger
        profile at epsilon >= 0); `reversed()` adds one, `symmetric()` covers both. Else the curve
        of both orders, its own reverse.
    Guarantee: `epsilon_bounds` and `delta_bounds` are certified, see `jaxpriv.compose`, for pairs
        that dominate: by Poisson pairs that are attained. In samples of fixed size a record moves a
        sum by two clipping norms, for another one has its place, also where it is a null record
        that goes; the pairs are bounds (attained by a single step, replace-one), composed step by
        step on a lattice unless add/remove.
    Raises: ValueError for values outside their range, and for shuffled batches,
        which are `shuffled_gaussian`.
    Source: Abadi et al. 2016; Zhu, Dong and Wang 2022; replace-one by Poisson, proved in
        `jaxpriv.tradeoff.replaced_gaussian`; for samples of fixed size, `Curve.subsample`;
        zero-out: Kairouz et al. 2021 (arXiv:2103.00039), Definition 1.1.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000).epsilon(1e-5):.3f}")
        1.828
    """
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    if sampling not in ("poisson", "fixed_size"):
        why = (
            "; batches of a shuffled data set are shuffled_gaussian, and Poisson's bound does not "
            "hold for them (Chua et al. 2024)"
        )
        raise ValueError(
            f"sampling = {sampling!r}; accepted: 'poisson', "
            f"'fixed_size'{why if sampling == 'shuffle' else ''}"
        )
    check_choice("adjacency", adjacency, ADJACENCIES)
    if sampling == "poisson":
        mu = derived(reciprocal, noise_multiplier)
        if adjacency == "replace_one":
            rate = as_parameter("sampling_rate", sampling_rate, RATE)
            return Curve(ReplacedGaussian(mu, rate)).compose(steps)
        return Curve(NormalShift(mu)).subsample(sampling_rate).compose(steps)
    pair = Curve(NormalShift(derived(_both_norms, noise_multiplier)))
    exchanged = "add_remove" if adjacency == "add_remove" else "replace_one"
    return pair.subsample(sampling_rate, exchanged).compose(steps)


def _both_norms(noise_multiplier):
    return 2 / noise_multiplier


def truncated_gaussian(
    noise_multiplier, sampling_rate, steps, dataset_size, largest_batch, *, adjacency="add_remove"
):
    """DP-SGD by Poisson sampling whose batches are cut: of a batch with more than `largest_batch`
    records that many are kept, a uniform choice.

    In a batch that is cut a record has another one's place and moves the sum by two norms, in all
    others by one. Which it was is taken for known (`jaxpriv.tradeoff.cut_batches`).

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf): noise standard deviation over the
            clipping norm.
        sampling_rate: `Float[Array, "..."]` in (0, 1]: probability that a record is drawn, before
            the batch is cut.
        steps: `Float[Array, "..."]` in [0, inf); the cost does not depend on it. Bounds of a
            fractional number hold for both whole numbers next to it.
        dataset_size: 1, 2, ... 1e9: records with the one in question, in the larger of both data
            sets. Who has n and protects who comes and who goes takes the worse of n and n + 1.
        largest_batch: 1, 2, ... 1e9. From dataset_size on nothing is cut, and the curve is that of
            `subsampled_gaussian`.
        adjacency: as of `subsampled_gaussian`; both data sets have dataset_size records unless it
            is "add_remove".

    Returns: the forward `Curve` (remove one record, or zero it out); `reversed()` adds one,
        `symmetric()` covers both; replace-one is its own reverse. Differentiable in noise, rate and
        steps.
    Guarantee: all bounds are certified, of a pair that dominates each step, composed by transforms
        or, unless add/remove, on a lattice. It is a bound: no data set is known that attains it.
    Raises: ValueError for values outside their range, and for sizes that are not whole.
    Source: Ganesh 2025 (arXiv:2508.15089). dp-accounting's `TruncatedSubsampledGaussianDpEvent` is
        the same mixture, with the pair of a replaced record at twice the norm for batches that are
        cut; that of an added one is enough, for one of both sums has no part of the record.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.truncated_gaussian(
        ...     1.0, 0.01, 1000, dataset_size=10_000, largest_batch=150)
        >>> print(f"{curve.symmetric().epsilon(1e-5):.4f}")
        1.8304
    """
    check_whole("dataset_size", dataset_size)
    check_whole("largest_batch", largest_batch)
    check_choice("adjacency", adjacency, ADJACENCIES)
    if largest_batch >= dataset_size:
        return subsampled_gaussian(noise_multiplier, sampling_rate, steps, adjacency=adjacency)
    mu = derived(reciprocal, as_parameter("noise_multiplier", noise_multiplier, POSITIVE))
    rate = as_parameter("sampling_rate", sampling_rate, RATE)
    pair = dict(zip(ADJACENCIES, (CutGaussian, CutReplaced, CutZeroed)))[adjacency]
    return Curve(pair.of(mu, rate, dataset_size - 1, largest_batch)).compose(steps)


def gaussian_mixture(shifts, weights):
    """One step whose sum the record moves by a random amount: sum_k w_k N(s_k, 1) against N(0, 1).

    In units of the noise. Poisson sub-sampling is shifts (0, 1/noise multiplier) and weights
    (1 - rate, rate). A step that moves a sum of vectors by random vectors of norms s_k, whatever
    their directions, is covered: this pair dominates (docs/certified.md).

    Args:
        shifts: `Float[Array, "... components"]` in [0, inf), sensitivities over the noise's
            standard deviation. Negative ones are refused: the likelihood ratio would not grow.
        weights: `Float[Array, "... components"]` >= 0 with as many components, their probabilities;
            they sum to 1 (to 1e-6) along the last axis, and are divided by their sum.

    Returns: the `Curve` of a record that is there against one that is not (remove); `reversed()`
        adds one, `symmetric()` covers both. `compose(n)` and `jaxpriv.compose` take it to many
        steps by its privacy-loss transform, at a cost that does not depend on n.
    Guarantee: all bounds, see docs/certified.md.
    Raises: ValueError for values outside their range, weights that do not sum to 1, and arguments
        with different numbers of components.
    Source: Choquette-Choo, Ganesh, Steinke, Thakurta 2024 (arXiv:2310.15526), the mixture of
        Gaussians mechanism.

        >>> import jaxpriv
        >>> step = jaxpriv.worst_case.gaussian_mixture([0.0, 1.0, 2.0], [0.9, 0.08, 0.02])
        >>> print(f"{step.compose(100).symmetric().epsilon(1e-5):.3f}")
        13.160
    """
    if not is_traced(shifts):
        check_number("shifts", shifts, NONNEGATIVE)
    shifts, weights = as_parameter("shifts", shifts, NONNEGATIVE), as_weights(weights)
    sizes = [np.shape(value) for value in (shifts, weights)]
    counts = [size[-1] if size else 0 for size in sizes]
    if counts[0] != counts[1] or not counts[0]:
        raise ValueError(
            f"shifts has {counts[0]} components along its last axis, weights {counts[1]}; "
            "they must agree"
        )
    try:
        np.broadcast_shapes(*sizes)
    except ValueError:
        raise ValueError(
            f"shifts has shape {sizes[0]}, weights {sizes[1]}; they must agree"
        ) from None
    each = (tuple(value[..., k] for k in range(counts[0])) for value in (shifts, weights))
    return Curve(GaussianMixture(Components(*each)))


def user_level(noise_multiplier, sampling_rate, steps, records_per_user):
    """DP-SGD that protects a whole user: all of somebody's records are added or removed at once.

    Each record takes part in a step on its own, so that Bin(K, sampling_rate) of a user's K do, and
    they move the sum of clipped gradients by as many clipping norms at most:
    sum_k Bin(K, q)(k) N(k/noise multiplier, 1) against N(0, 1), in every step.

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf): noise standard deviation over the
            clipping norm of one record.
        sampling_rate: `Float[Array, "..."]` in (0, 1]: probability that a record takes part.
        steps: `Float[Array, "..."]` in [0, inf); the cost does not depend on it. Bounds of a
            fractional number hold for both whole numbers next to it.
        records_per_user: K in 1, 2, ... 100, the largest number of records of one user. Users with
            fewer are covered.

    Returns: the forward `Curve` (remove a user); `reversed()` adds one, `symmetric()` covers both.
    Guarantee: all bounds are certified; the pair dominates every step, whatever the directions of
        the records' gradients, and is attained by equal ones. It holds for add/remove adjacency of
        whole users and Poisson sampling of records, each clipped on its own, with the results of
        all steps known to the adversary, who may have chosen each step by those before.
    Raises: ValueError for values outside their range,
        and for a number of records that is not whole.
    Source: Ganesh 2024 (arXiv:2401.10294) for groups under Poisson sampling; Charles et al. 2024
        (arXiv:2407.07737), DP-SGD with example-level sampling. Proof: docs/certified.md.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.user_level(2.0, 0.01, 1000, records_per_user=4)
        >>> print(f"{curve.symmetric().epsilon(1e-5):.3f}")
        2.893
    """
    check_whole("records_per_user", records_per_user, most=100)
    if records_per_user == 1:
        return subsampled_gaussian(noise_multiplier, sampling_rate, steps)
    mu = derived(reciprocal, as_parameter("noise_multiplier", noise_multiplier, POSITIVE))
    rate = as_parameter("sampling_rate", sampling_rate, RATE)
    return Curve(GaussianMixture(Owned(mu, rate, int(records_per_user)))).compose(steps)


def random_allocation(noise_multiplier, steps, selected=1, epochs=1):
    """DP-SGD in which a record takes part in `selected` of `steps` steps of an epoch, at random.

    selected = 1 are balls-in-bins batches: every record is put into one of `steps` batches, on its
    own. One epoch is (1/t) sum_i N(e_i/noise multiplier, I) against N(0, I) in t = steps
    dimensions: the likelihood ratio is a mean of t lognormals (`jaxpriv.tradeoff.lognormal_mean`).

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf): noise standard deviation over the
            clipping norm.
        steps: `Float[Array, "..."]` in [1, 1e9], whole: steps of an epoch; the cost does not depend
            on it. One step is the Gaussian mechanism.
        selected: whole, 1 ... steps (a concrete number; then steps is one too).
        epochs: whole, >= 1: anew allocated in each.

    Returns: the forward `Curve` (remove one record, the larger profile at epsilon >= 0);
        `reversed()` adds one, `symmetric()` covers both. Differentiable, also inside `jit`, for one
        epoch with selected = 1; compositions are of concrete numbers.
    Guarantee: of one epoch with selected = 1 all bounds are certified on both sides, the pair is
        attained. Epochs and `compose`: certified, by a pair above and one below on a lattice, to
        about 1e-3. selected > 1: the curve is a *bound*, of which the brackets are certified: the
        upper ends hold for the mechanism, the lower ones say nothing of it. Steps may be chosen by
        those before (add/remove adjacency; the number of steps is public).
    Raises: ValueError for values outside their range, and for fractional steps.
    Source: Chua et al. 2025 (arXiv:2412.16802), the pair; Feldman and Shenfeld 2025
        (arXiv:2502.08202) for adaptive steps and for selected > 1: a uniform choice of k among t
        steps is one of each of k blocks, drawn at random, and whoever knows the blocks sees k
        allocations composed. With r = t mod k those are r blocks of ceil(t/k) steps and k - r of
        floor(t/k), which is a little better than the published k of floor(t/k).

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.random_allocation(1.0, 1000)
        >>> print(f"{curve.epsilon(1e-5):.4f} {curve.reversed().epsilon(1e-5):.4f}")
        0.1388 0.1263
    """
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    steps = as_parameter("steps", steps, STEPS)
    check_whole("selected", selected)
    check_whole("epochs", epochs)
    if not is_traced(steps) and np.any(np.asarray(steps) % 1 > 0):
        raise ValueError(f"steps = {steps} is not whole; between two there is no allocation")
    mu = derived(reciprocal, noise_multiplier)
    if selected == 1:
        return Curve(Allocation(mu, steps)).compose(epochs)
    if is_traced(steps) or np.ndim(steps) or selected > steps:
        raise ValueError(f"selected = {selected} is outside its range 1 ... steps, of one number")
    size, more = divmod(int(steps), int(selected))
    blocks = [Curve(Allocation(mu, float(size + up))).compose(count * epochs)
              for up, count in ((0, selected - more), (1, more)) if count]
    return Curve(together([block.experiment for block in blocks]))


def shuffled_gaussian(noise_multiplier, steps, epochs=1, *, adjacency="zero_out"):
    """DP-SGD whose loader shuffles the data set before every epoch and deals it into `steps`
    batches: bracketed between a theorem and two attacks, which do not meet.

    All records are permuted uniformly at random, independently of their values and anew in each
    epoch, and the list is cut into `steps` batches of fixed sizes that are no secret and need not
    be equal: each record takes part in exactly one step of an epoch. Gradients may be chosen by
    what all steps before released; noise is added to their clipped sum in every step.

    Args:
        noise_multiplier: `Float[Array, "..."]` in (0, inf): noise standard deviation over the
            clipping norm.
        steps: `Float[Array, "..."]` in [1, 1e9], whole: batches of an epoch.
        epochs: whole, 1 ... 1e9 (a concrete number).
        adjacency: "zero_out": one record's gradients are zero or there, at the same place of the
            list; or "replace_one": another record has its place. "add_remove" is refused: all
            batches behind the record would move.

    Returns: zero-out: the forward `Curve` (zero one record); `reversed()` puts it back,
        `symmetric()` covers both. Replace-one: the curve of both orders, its own reverse.
        Estimates are the theorem's, the safe side, differentiable in the noise multiplier; steps
        move only the lower ends of bounds.
    Guarantee: brackets of what this mechanism tells at most, over all data sets, records and ways
        to choose gradients. Upper ends hold for every shuffling loader, also one that drops the
        last batch, or permutes once: the curve of gaussian(sqrt(epochs)/noise multiplier), twice
        that mu for replace-one. For whoever knows the permutations sees one Gaussian release of the
        record in each epoch, between steps that are the same with and without it; those compose
        adaptively, and not to know the permutations, which do not depend on the data, only loses.
        Lower ends are what two attacks reach when all other records pull the other way
        (`jaxpriv.tradeoff.largest_sum`): by the largest sum of each epoch, composed on a lattice
        (inside `jit` that of one epoch alone), and by the sum of all sums, a Gaussian mechanism of
        the theorem's mu over sqrt(steps). The theorem's mu is the smallest of mu-GDP, attained as
        alpha -> 0. One step per epoch is its Gaussian mechanism. Derived in docs/certified.md.
    Raises: ValueError for values outside their range, and for other adjacencies.
    Source: Chua et al. 2024 (arXiv:2403.17673, one epoch; arXiv:2411.04205, several): the attack.
        Poisson's certificate, epsilon = 0.149 for the numbers below, does not hold.

        >>> import jaxpriv
        >>> curve = jaxpriv.worst_case.shuffled_gaussian(1.0, steps=1000)
        >>> print("{:.4f} {:.4f}".format(*curve.epsilon_bounds(1e-5)))
        2.8821 4.3772
    """
    if adjacency not in ("zero_out", "replace_one"):
        why = ", whose batches behind the record differ and are not covered"
        raise ValueError(
            f"adjacency = {adjacency!r}{why if adjacency == 'add_remove' else ''}; "
            "accepted: 'zero_out', 'replace_one'"
        )
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    steps = as_parameter("steps", steps, STEPS)
    check_whole("epochs", epochs)
    if not is_traced(steps) and np.any(np.asarray(steps) % 1 > 0):
        raise ValueError(f"steps = {steps} is not whole; a batch is dealt or it is not")
    zero_out = adjacency == "zero_out"
    mu = derived(reciprocal, noise_multiplier)
    signal = mu if zero_out else derived(_both_norms, noise_multiplier)
    total = NormalShift(derived(grown, signal, derived(reciprocal, steps)))
    attacks = LargestSum(mu, steps, int(zero_out)), total
    curve = Curve(Attacked(NormalShift(signal), attacks)).compose(epochs)
    return curve if zero_out else curve.symmetric()


def gaussian_releases(sensitivities, noise_stds):
    """Unequal Gaussian releases seen together: mu^2 = sum_i (sensitivity_i/noise_std_i)^2.

    Args:
        sensitivities: `Float[Array, "... releases"]` in [0, inf), L2, one for each release.
        noise_stds: `Float[Array, "... releases"]` in (0, inf).

    Raises: ValueError for values outside their range. Source: Dong, Roth, Su 2022, Corollary 3.3.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.gaussian_releases([3.0, 4.0], [1.0, 1.0]).gdp_mu():.4f}")
        5.0000
    """
    return Curve(NormalShift(combined_signal(sensitivities, noise_stds, "optimal")))


def signal(sensitivities, noise_stds, averaging="optimal"):
    """mu of several Gaussian releases to an adversary who adds them up.

    "optimal" weights release i by sensitivity_i/noise_std_i^2,
    mu^2 = sum (sensitivity/noise_std)^2; "mean" is the plain average of Kaissis et al. 2022,
    Theorem 2 and Kaissis et al. 2023, Lemma 8, mu^2 = (sum sensitivity)^2/sum noise_std^2,
    never larger (Cauchy-Schwarz) and equal for equal releases.

        >>> print(f"{signal([1.0, 1.0], [1.0, 2.0]):.4f} "
        ...       f"{signal([1.0, 1.0], [1.0, 2.0], averaging='mean'):.4f}")
        1.1180 0.8944
    """
    found = combined_signal(sensitivities, noise_stds, averaging)
    return number(found)
