"""Curves of correlated noise: one Gaussian release of C x, or sub-sampled ones where it is banded.

Without sampling: z = C^-1 g is what turns a release of C x + g into one of x + z, so that a
training is one release with Gaussian noise at the sensitivity of C, whatever was chosen by what was
released before (Denisov et al. 2022, Theorem 2.1): mu = sensitivity/noise multiplier.

With cyclic Poisson sampling and at most `cycle` bands: a record of the group whose turn the steps
j, j + cycle, ... are enters rows j ... j + cycle - 1 of C x with its first participation, the next
`cycle` rows with its second, and so on. These blocks are released one after the other. Given what
was released before, each is, seen by who knows all other records, a Gaussian release whose mean the
record moves by a column of C, times its gradient, with probability `rate`: DP-SGD's step with noise
multiplier noise multiplier/|column|, and the group has ceil((T - j)/cycle) of them. The longest
column and the first group dominate (Choquette-Choo et al. 2023, Theorem 4, which this proves anew;
there columns have length 1).
"""

from typing import Any

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, POSITIVE, RATE, as_parameter, is_traced
from jaxpriv._derived import Derived, derived, quotient
from jaxpriv._types import Numbers
from jaxpriv.accounting import calibrate
from jaxpriv.correlated.participation import ONCE, CyclicPoisson, Participation
from jaxpriv.correlated.reach import sensitivity, sensitivity_bounds
from jaxpriv.correlated.strategies import Strategy
from jaxpriv.curve import Curve
from jaxpriv.tradeoff.gaussian_pairs import NormalShift


def curve(
    strategy: Strategy, noise_multiplier: Numbers, steps: int, participation: Participation = ONCE
) -> Curve:
    """The trade-off curve of a training with correlated noise, all of it released.

    Args:
        strategy: of `jaxpriv.correlated`.
        noise_multiplier: `Float[Array, "..."]` in (0, inf): the standard deviation of the
            independent noise g, before C^-1, over the clipping norm.
        steps: 1, 2, ...: the number of noisy gradients.
        participation: `MinSeparation`: `worst_case.gaussian(sensitivity/noise_multiplier)`; or
            `CyclicPoisson`: `worst_case.subsampled_gaussian`, remove one record, of ceil(steps/
            cycle) steps with the longest column as clipping norm. `symmetric()` covers adding.

    Guarantee: all bounds, for add/remove adjacency and each record's gradients clipped to norm 1,
        by the upper of `sensitivity_bounds`; but for a traced strategy, whose `sensitivity` is
        computed in its dtype, as it comes: there bounds hold up to that rounding.
    Raises: ValueError for values outside their range, and for cyclic Poisson sampling of what has
        more bands than the cycle.
    Source: the module's docstring.

        >>> from jaxpriv import correlated
        >>> strategy = correlated.banded_square_root(4)
        >>> epochs = correlated.MinSeparation(100)
        >>> print(f"{curve(strategy, 4.0, 1000, epochs).epsilon(1e-5):.3f}")
        4.198
        >>> amplified = correlated.CyclicPoisson(4, rate=0.04)
        >>> print(f"{curve(strategy, 4.0, 1000, amplified).symmetric().epsilon(1e-5):.3f}")
        0.741
    """
    return _curve(_certified(strategy, steps, participation), noise_multiplier, steps,
                  participation)


def noise_multiplier(
    strategy: Strategy, steps: int, participation: Participation = ONCE, **target: Any
) -> float | Any:
    """The noise with which a training meets a target: `curve`'s noise_multiplier.

    Args: strategy, steps, participation: as `curve`; one target as `jaxpriv.calibrate` takes it:
        epsilon and delta, or mu, or advantage, or fpr and tpr; and its bracket.

    Returns, guarantee: as `jaxpriv.calibrate`, the last number at which the target surely holds;
        inside `jit` a part of the program, differentiable in the target, the sampling rate and the
        strategy (whose own rounding is then not covered, as in `curve`).
    Raises: ValueError as `curve` and `jaxpriv.calibrate`.

        >>> from jaxpriv import correlated
        >>> amplified = correlated.CyclicPoisson(4, rate=0.04)
        >>> noise = noise_multiplier(correlated.banded_square_root(4), 1000, amplified,
        ...                          epsilon=1.0, delta=1e-5)
        >>> print(f"{noise:.4f}")
        3.1228
    """
    # noise over sensitivity is what a target asks for, whatever the strategy
    relative = calibrate(lambda noise: _curve(1.0, noise, steps, participation), **target)
    found = _certified(strategy, steps, participation)
    return relative * found * (1 + 4 * float(xp.finfo(xp.result_type(relative, found)).eps))


def _curve(found, noise_multiplier, steps, participation):
    noise_multiplier = as_parameter("noise_multiplier", noise_multiplier, POSITIVE)
    mu = derived(quotient, found, noise_multiplier)
    if not isinstance(mu, Derived):
        mu = as_parameter("mu", mu, NONNEGATIVE)
    curve = Curve(NormalShift(mu))
    if not isinstance(participation, CyclicPoisson):
        return curve
    rate = as_parameter("rate", participation.rate, RATE)
    return curve.subsample(rate).compose(participation.times(steps))


def _certified(strategy, steps, participation):
    """The sensitivity; of concrete strategies rounded up, by more than the rounding of its quotient
    with the noise.
    """
    if is_traced(strategy):
        return sensitivity(strategy, steps, participation)
    return sensitivity_bounds(strategy, steps, participation)[1]
