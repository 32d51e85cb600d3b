"""What a certificate for Poisson sampling is worth if the loader shuffles."""

import math

from jaxpriv import worst_case
from jaxpriv._checks import OPEN_UNIT, RATE, SCALE, check_number
from jaxpriv._rounding import rounded_down, rounded_up
from jaxpriv.training.drawn import DrawnProfile
from jaxpriv.training.sampling import Poisson

_MOST = 10**9  # batches and epochs that the attack is followed for


def if_shuffled(noise_multipliers, sampling_rate, steps, certified, delta, added=None):
    """What the same run tells if every epoch is dealt from a shuffled data set instead.

    An epoch is ceil(1/sampling_rate) batches. Of steps that do not fill one the upper end counts
    all, the lower end none; of unequal noises the upper end the least, the lower the most.

    Args:
        noise_multipliers: those of the steps, each in [1e-15, 1e15]. sampling_rate: in (0, 1].
        steps: whole, >= 0. certified: the epsilon of the certificate, or None. delta: in (0, 1).
        added: epsilon -> what delta grows by, as `DrawnProfile` takes it; nothing unless given.

    Returns: {"batches", "epochs", "epsilon_lower", "epsilon", "sentence"}; None where a batch is
        all there is. epsilon is None where it is above 512.
    Guarantee: both ends for records that are zeroed out: `worst_case.shuffled_gaussian`.
    Raises: ValueError for values outside their range.

        >>> print(if_shuffled((1.0,), 0.001, 1000, 0.2, 1e-5)["sentence"])
        If the loader shuffles instead (1000 batches an epoch), this certificate does not hold: \
with one record zeroed out, ε at δ = 1e-05 is between 2.882 (an attack reaches it) and 4.378 \
(proven).
    """
    check_number("delta", delta, OPEN_UNIT)
    check_number("sampling_rate", sampling_rate, RATE)
    check_number("noise_multipliers", noise_multipliers, SCALE)
    batches = math.ceil(1 / sampling_rate * (1 - 1e-12))  # 1/rate of whole numbers, as a float
    if batches == 1:
        return None
    full, begun = steps // batches, -(-steps // batches)
    above = worst_case.gaussian(math.sqrt(begun) / min(noise_multipliers) * (1 + 8e-16))
    _, high = DrawnProfile(above, added or (lambda epsilon: 0.0)).epsilon(delta)
    low = 0.0
    if full and batches <= _MOST:
        attacked = worst_case.shuffled_gaussian(max(noise_multipliers), batches, min(full, _MOST))
        low = min(float(attacked.epsilon_bounds(delta)[0]), high)
    broken = certified is not None and low > certified
    proven = rounded_up(high) if math.isfinite(high) else "∞"
    return {
        "batches": batches,
        "epochs": begun,
        "epsilon_lower": low,
        "epsilon": high if math.isfinite(high) else None,
        "sentence": (
            f"If the loader shuffles instead ({batches} batches an epoch), "
            f"{'this certificate does not hold: ' * broken}with one record zeroed out, "
            f"ε at δ = {delta:g} is between {rounded_down(low)} (an attack reaches it) "
            f"and {proven} (proven)."
        ),
    }


def plan_if_shuffled(plan, steps, certified):
    """`if_shuffled` of a training's plan after so many steps; None unless its batches are Poisson
    samples, and its noise is independent: other certificates say nothing of Poisson sampling.
    """
    if not isinstance(plan.sampler, Poisson) or plan.is_correlated or plan.records_per_user > 1:
        return None
    return if_shuffled(plan.noise_multipliers, plan.sampling_rate, steps, certified, plan.delta,
                       lambda epsilon: plan.noise_delta(epsilon, steps))
