"""The steps of a composition on a lattice, and the law of each, coarsely: what decides where the
lattice lies.
"""

from typing import Any

import jax

from jaxpriv import _array as xp
from jaxpriv._pytree import pytree
from jaxpriv.composition import lattice

_TABLE = 1024
_ENDLESS = 1e300
_FLOOR = -230.0  # log of the probability beyond which a single step's losses are not followed


@pytree
class Step:
    """Equal steps of several mechanisms: an experiment with parameters (..., members)
    and how often each is taken.
    """

    experiment: Any
    count: jax.Array


@pytree
class Table:
    """The law of a step's loss, coarsely:
    where to tilt, how wide the total is, and a bound of tails.

    edges: (..., nodes + 1), ascending; log_mass of the cells at most, at `loss`; above, below: mass
    outside the edges; endless: mass at infinity.
    """

    edges: jax.Array
    loss: jax.Array
    log_mass: jax.Array
    above: jax.Array
    below: jax.Array
    endless: jax.Array

    def cumulants(self, c):
        exponent = self.log_mass + c[..., None] * self.loss
        value = xp.logsumexp(exponent, -1)
        weight = xp.exp(exponent - value[..., None])
        mean = xp.sum(weight * self.loss, -1)
        return value, mean, xp.sum(weight * (self.loss - mean[..., None]) ** 2, -1)


def tabulate(experiment, reverse):
    """The table of one direction, with nodes spread evenly where most losses are and
    geometrically beyond.

    Two rounds of one program: tests at eps of all sizes tell where losses end,
    tests at the edges the law between them.
    """
    dtype = xp.result_type(*jax.tree.leaves(experiment))
    one = jax.tree.map(lambda leaf: xp.asarray(leaf)[None], experiment).aligned((1,), dtype)
    bound, other = one.loss_bound(False)[0], one.loss_bound(True)[0]
    bound, other = xp.where(reverse, other, bound), xp.where(reverse, bound, other)
    middle = _TABLE // 2
    sizes = 2.0 ** xp.linspace(-40.0, 20.0, middle, dtype=dtype)
    probe = xp.concatenate([-xp.flip(sizes), xp.zeros(1, dtype), sizes])

    def round_(points, _):
        test = lattice.touch(experiment, points, reverse)
        above, below = test.log_power[middle:], xp.flip(test.log_beta[: middle + 1])
        # an infinite loss has no end
        none_above, none_below = ((log < _FLOOR) | (log <= log[-1]) for log in (above, below))
        high, low = (
            xp.min(xp.where(none, probe[middle:], probe[-1])) for none in (none_above, none_below)
        )
        # with atoms at the ends inside, and of some width even if nothing is lost
        high, low = (
            xp.minimum(size, end) * (1 + 1e-9) + 1e-12
            for size, end in ((high, bound), (low, other))
        )
        unit = (
            xp.maximum(
                xp.exp(test.log_power[middle]) - xp.exp(test.log_alpha[middle]), 1e-9 * (high + low)
            )
            + 1e-290
        )
        left, right = -xp.arcsinh(low / unit), xp.arcsinh(high / unit)
        edges = unit * xp.sinh(
            left + (right - left) * xp.linspace(0.0, 1.0, _TABLE + 1, dtype=dtype)
        )
        return edges, (points, test)

    _, rounds = xp.scan(round_, probe, length=2)
    # P(L > 1e300): neither what others lose nor an eps that is asked for makes up for it
    last = lattice.touch(experiment, xp.full(1, _ENDLESS, dtype), reverse).log_power[0]
    endless = xp.where(xp.isnan(last), 0.0, xp.exp(last))
    edges, test = jax.tree.map(lambda leaf: leaf[1], rounds)
    found = lattice.between_points(edges, test, experiment.isolated)
    most = xp.logaddexp(found.log_mass + xp.log1p(found.error), found.unseen)
    return Table(edges, edges[:-1] + found.rise, most, found.above, found.below, endless)


def cumulants(terms, c):
    """Sums over all steps of (K, K', K'') at a scalar c, from the tables."""
    found = [
        (term.count, term.transform.cumulants(xp.broadcast_to(c, term.count.shape)))
        for term in terms
    ]
    return [sum(xp.sum(count * values[i]) for count, values in found) for i in range(3)]


def tables_of(steps, reverse):
    """The tables of all steps; nothing of them is differentiated."""
    steps = xp.stop_gradient(steps)
    return [xp.each(lambda member: tabulate(member, reverse), step.experiment) for step in steps]
