"""Gaussian noise on sums over records that are drawn anew in every step."""

from typing import Any

from jaxpriv._checks import (
    ADJACENCIES,
    NONNEGATIVE,
    POSITIVE,
    RATE,
    as_parameter,
    check_choice,
    check_whole,
)
from jaxpriv._derived import derived, reciprocal
from jaxpriv._types import Numbers
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.cut_batches import CutGaussian, CutReplaced, CutZeroed
from jaxpriv.tradeoff.gaussian_mixture import GaussianMixture
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.hull import ZeroedOut
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from jaxpriv.tradeoff.shifts import Owned


def subsampled_gaussian(
    noise_multiplier: Numbers, sampling_rate: Numbers, steps: Numbers, *,
    adjacency: str = "add_remove", sampling: str = "poisson",
) -> Curve:
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
        that goes; the pairs are bounds (attained by a single step, replace-one), composed, unless
        add/remove, by their transform where steps are many, of few and inside `jit` on a lattice.
    Raises: ValueError for values outside their range, and for shuffled batches,
        which are `shuffled_gaussian`.
    Source: Abadi et al. 2016; Zhu, Dong and Wang 2022; replace-one by Poisson, proved in
        `jaxpriv.tradeoff.replaced_gaussian`; for samples of fixed size, `Curve.subsample`;
        zero-out: Kairouz et al. 2021 (arXiv:2103.00039), Definition 1.1.

        >>> import jaxpriv
        >>> print(f"{jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000).epsilon(1e-5):.3f}")
        1.828
    """
    noise, rate, steps = _training(noise_multiplier, sampling_rate, steps)
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
        mu = derived(reciprocal, noise)
        if adjacency == "replace_one":
            return Curve(ReplacedGaussian(mu, rate)).compose(steps)
        return Curve(NormalShift(mu)).subsample(rate).compose(steps)
    pair = Curve(NormalShift(derived(both_norms, noise)))
    if adjacency == "add_remove":
        return pair.subsample(rate).compose(steps)
    exchanged: Any = pair.subsample(rate, "replace_one")
    if adjacency == "zero_out":
        exchanged = Curve(ZeroedOut(exchanged.experiment.members))
    return exchanged.compose(steps)


def _training(noise_multiplier, sampling_rate, steps):
    """The three numbers of DP-SGD, each refused by its own name."""
    return (
        as_parameter("noise_multiplier", noise_multiplier, POSITIVE),
        as_parameter("sampling_rate", sampling_rate, RATE),
        as_parameter("steps", steps, NONNEGATIVE),
    )


def both_norms(noise_multiplier):
    """mu of a record that moves a sum by twice the clipping norm."""
    return 2 / noise_multiplier


def truncated_gaussian(
    noise_multiplier: Numbers, sampling_rate: Numbers, steps: Numbers, dataset_size: int,
    largest_batch: int, *, adjacency: str = "add_remove",
) -> Curve:
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
    Guarantee: all bounds are certified, of a pair that dominates each step, composed by transforms;
        few steps, unless add/remove, on a lattice where that is narrower. It is a bound, of which
        the brackets say how well it is known: no data set is known that attains it, for the pair
        of a cut batch is the hull of both directions, and takes for known that it was cut.
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
    noise, rate, steps = _training(noise_multiplier, sampling_rate, steps)
    mu = derived(reciprocal, noise)
    pair = dict(zip(ADJACENCIES, (CutGaussian, CutReplaced, CutZeroed)))[adjacency]
    return Curve(pair.of(mu, rate, dataset_size - 1, largest_batch)).compose(steps)


def user_level(
    noise_multiplier: Numbers, sampling_rate: Numbers, steps: Numbers, records_per_user: int
) -> Curve:
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
    noise, rate, steps = _training(noise_multiplier, sampling_rate, steps)
    users = Owned(derived(reciprocal, noise), rate, int(records_per_user))
    return Curve(GaussianMixture(users)).compose(steps)
