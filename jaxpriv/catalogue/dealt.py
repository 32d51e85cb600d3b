"""Gaussian noise on batches that the records of an epoch are dealt into."""

import numpy as np

from jaxpriv._checks import (
    POSITIVE,
    Domain,
    as_parameter,
    check_whole,
    is_traced,
)
from jaxpriv._derived import derived, grown, reciprocal
from jaxpriv._types import Numbers
from jaxpriv.catalogue.sampled import both_norms
from jaxpriv.composition.steps import together
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.allocation import Allocation
from jaxpriv.tradeoff.attacked import Attacked
from jaxpriv.tradeoff.gaussian_pairs import NormalShift
from jaxpriv.tradeoff.largest_sum import LargestSum

STEPS = Domain(1.0, 1e9, "[1, 1e9]", 1.0)


def random_allocation(
    noise_multiplier: Numbers, steps: Numbers, selected: int = 1, epochs: int = 1
) -> Curve:
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
    if not is_traced(steps) and np.all(np.asarray(steps) == 1):
        return Curve(NormalShift(mu)).compose(epochs)
    if selected == 1:
        return Curve(Allocation(mu, steps)).compose(epochs)
    if is_traced(steps) or np.ndim(steps) or selected > steps:
        raise ValueError(f"selected = {selected} is outside its range 1 ... steps, of one number")
    size, more = divmod(int(steps), int(selected))
    blocks = [
        Curve(Allocation(mu, float(size + up))).compose(count * epochs)
        for up, count in ((0, selected - more), (1, more))
        if count
    ]
    return Curve(together([block.experiment for block in blocks]))


def shuffled_gaussian(
    noise_multiplier: Numbers, steps: Numbers, epochs: int = 1, *, adjacency: str = "zero_out"
) -> Curve:
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
    signal = mu if zero_out else derived(both_norms, noise_multiplier)
    total = NormalShift(derived(grown, signal, derived(reciprocal, steps)))
    attacks = LargestSum(mu, steps, int(zero_out)), total
    curve = Curve(Attacked(NormalShift(signal), attacks)).compose(epochs)
    return curve if zero_out else curve.symmetric()
