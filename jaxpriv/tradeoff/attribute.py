"""How well an attribute is inferred by who knows the rest of the record.

The attribute has value a with probability pi_a <= b beforehand; x_a is the probability that the
guess is a where it is, e_ca that it is a where it is c. Which says, of every two values, x_a <=
delta + e^eps e_ca, and sum_(a != c) e_ca = 1 - x_c. What is best for the guess is convex in pi, so
the worst prior is an end of the polytope pi <= b: as even as b allows.

Of k = 1/b equally likely values: the mean over all pairs gives S <= delta + e^eps (1 - S)/(k - 1),
for every eps, so that the success S is at most the root of S = power(b (1 - S)/(1 - b)). Where k is
not whole, and one value has less: the same inequalities with weights v_c, pi_a = v_a + sum_(c != a)
v_c e^-eps_a, give no more than this root. For b >= 1/2, of the others against the likeliest: S <= b
+ (1 - b) delta(log(b/(1 - b))), the best guess between two values.
"""

import jax

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT
from jaxpriv.tradeoff.evaluate import elementwise
from jaxpriv.tradeoff.inference import power_bracket
from jaxpriv.tradeoff.solve import newton_in_bracket
from jaxpriv.tradeoff.stepping import outward, profile_bounds

_FARTHEST = 700.0
_NEAR = 1e-9  # a step of Newton's, after which the next would be its square


def _odds(baseline):
    """(does delta at one eps answer, odds where it does not, this eps).

    That of a baseline of 0 is what is told for sure: delta at the farthest eps.
    """
    likely = (baseline >= 0.5) | (baseline == 0)
    rare = xp.where(likely, 0.25, baseline)
    common = xp.where((baseline >= 0.5) & (baseline < 1), baseline, 0.5)
    epsilon = xp.log(common) - xp.log1p(-common)
    return likely, rare / (1 - rare), xp.where(baseline == 0, _FARTHEST, epsilon)


def _excess(experiment, success, odds):
    """success - power(odds (1 - success)), increasing, and its slope."""
    (_, log_power), loss = experiment.errors_and_slope(odds * (1 - success), False)
    return success - xp.exp(log_power), 1 + odds * xp.exp(xp.minimum(loss, _FARTHEST))


def _root(experiment, odds):
    """The success for a baseline below 1/2: from above, where Newton's steps stay, as the power is
    concave.
    """
    start = xp.exp(experiment.errors(odds / (1 + odds), False)[1])
    return newton_in_bracket(lambda s: _excess(experiment, s, odds), xp.zeros_like(odds),
                             xp.ones_like(odds), iterations=60, start=start, tolerance=_NEAR)


@elementwise(UNIT, "baseline")
def attribute_success(experiment, baseline):
    """An estimate; one more step, of Newton's, carries the derivatives."""
    likely, odds, epsilon = _odds(baseline)
    still = xp.stop_gradient((experiment, odds))
    root = xp.stop_gradient(_root(*still))
    steep = xp.stop_gradient(_excess(still[0], root, still[1])[1])
    power = xp.exp(experiment.errors(odds * (1 - root), False)[1])
    rare = root - (root - power) / steep
    common = baseline + (1 - baseline) * xp.exp(experiment.log_delta(epsilon, False))
    return xp.where(likely, common, rare)


@elementwise(UNIT, "baseline")
def bounds_of_attribute_success(experiment, baseline):
    """Certified (lower, upper). Where the power at the level that belongs to s is above s, so is
    the root; where it is below, the root is above that power, for at a higher level it is higher.
    At levels from 1 - delta(0) on the power is at least delta(0) (`beyond_contact`), hence s = 1 -
    (1 - delta(0))/odds is below the root, if odds <= 1.
    """
    ulp = xp.finfo(baseline.dtype).eps
    likely, odds, epsilon = _odds(baseline)
    root = _root(experiment, odds)
    level = odds * (1 - root)
    levels = xp.stack([level * (1 - 8 * ulp), xp.minimum(level * (1 + 8 * ulp), 1.0)])
    twice = jax.tree.map(lambda leaf: leaf[None], experiment).aligned(levels.shape, levels.dtype)
    low, high = power_bracket(twice, levels)
    lower, upper, _ = profile_bounds(experiment, False, epsilon)
    least, most = outward(lower, upper)
    at_zero = 1 - (1 - least + ulp) / odds * (1 + 8 * ulp)
    rare = xp.maximum(xp.minimum(low[0], root), at_zero), xp.maximum(high[1], root)
    off = 16 * ulp * (1 + epsilon)
    # a power at level 0 may be less than delta at the farthest eps
    least = xp.where(baseline == 0, 0.0, least)
    rest = 1 - baseline
    common = baseline * (1 - off) + rest * least, baseline * (1 + off) + rest * most
    low, high = (xp.where(likely, *pair) for pair in zip(common, rare))
    return xp.maximum(low, baseline), xp.clip(high * (1 + 4 * ulp), baseline, 1.0)
