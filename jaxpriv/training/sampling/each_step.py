"""Samplers that draw every batch anew: Poisson, cut at a largest size, and of a fixed size."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from jaxpriv import worst_case
from jaxpriv._checks import check_whole
from jaxpriv.accounting import compose
from jaxpriv.mixing import worst_of
from jaxpriv.training.sampling.batch import Batch, capacity
from jaxpriv.training.sampling.poisson import poisson_sample
from jaxpriv.training.sampling.sampler import Sampler, whole_batch
from jaxpriv.training.sampling.uniform import order, order_unlike


@dataclasses.dataclass(frozen=True)
class Poisson(Sampler):
    """Every record takes part in a step by its own coin.

    Its curve is `worst_case.subsampled_gaussian`, of whole users `worst_case.user_level`.

        >>> Poisson().settings()
        {'name': 'poisson'}
    """

    name = "poisson"

    def curve(self, plan, parts):
        return compose(*(worst_case.subsampled_gaussian(noise, plan.sampling_rate, count)
                         for noise, count in parts)).symmetric()

    def user_curve(self, plan, parts):
        each = (worst_case.user_level(noise, plan.sampling_rate, count, plan.records_per_user)
                for noise, count in parts)
        return compose(*each).symmetric()

    def rows(self, plan, records):
        fits = capacity(records, plan.sampling_rate, plan.steps)
        return min(fits + plan.records_per_user, records)

    def batch(self, plan, key, step, records, drawn, rows):
        return poisson_sample(key, records, plan.sampling_rate, rows)

    def describe(self, plan):
        return (
            "Poisson: every record takes part in a step with probability "
            f"{plan.sampling_rate:g}, independently"
        )


class _NotForUsers(Sampler):
    """Samplers whose curve depends on the number of records, which a user changes by several."""

    counts_everyone = True
    most = 2.0

    def check(self, plan):
        if plan.records_per_user > 1:
            raise ValueError(
                f"records_per_user = {plan.records_per_user} with {self.name} batches, whose curve "
                "of users is not known; accepted: 1, or another sampler"
            )


@dataclasses.dataclass(frozen=True)
class CutPoisson(_NotForUsers):
    """Poisson samples; of one with more than `largest_batch` records that many are kept, a uniform
    choice, so that batches fit a device.

    Its curve is the worse of `worst_case.truncated_gaussian` for n and n + 1 records.

    Attributes: largest_batch: 1, 2, ...
    """

    largest_batch: int
    name = "cut_poisson"

    def __post_init__(self):
        check_whole("largest_batch", self.largest_batch)

    def curve(self, plan, parts):
        def of(size):
            steps = (worst_case.truncated_gaussian(noise, plan.sampling_rate, count, size,
                                                   self.largest_batch) for noise, count in parts)
            return compose(*steps).symmetric()

        return worst_of(of(plan.dataset_size), of(plan.dataset_size + 1))

    def unlike(self, plan, steps):
        return steps * order_unlike(plan.dataset_size)

    def rows(self, plan, records):
        return min(self.largest_batch, records)

    def batch(self, plan, key, step, records, drawn, rows):
        drawing, cutting = jax.random.split(key)
        fits = min(capacity(records, plan.sampling_rate, plan.steps) + 1, records)
        everyone = poisson_sample(drawing, records, plan.sampling_rate, fits)
        return some_of(cutting, everyone, min(self.largest_batch, fits))

    def describe(self, plan):
        return (
            f"{Poisson().describe(plan)}; of a batch with more than {self.largest_batch} records "
            "that many are kept, at random"
        )

    @property
    def reach(self):
        return "the clipping norm, in a batch that is cut by twice that"


@dataclasses.dataclass(frozen=True)
class FixedSize(_NotForUsers):
    """Exactly batch_size records, a uniform choice without replacement, in every step anew.

    Its curve is `worst_case.subsampled_gaussian(sampling="fixed_size")`: another record has the
    place of the one that goes, so that sums move by two clipping norms.
    """

    name = "fixed_size"

    def check(self, plan):
        super().check(plan)
        if whole_batch(plan) >= plan.dataset_size:
            raise ValueError(
                f"batch_size = {plan.batch_size:g} is outside its range 1 ... dataset_size - 1 = "
                f"{plan.dataset_size - 1} of fixed-size batches"
            )

    def curve(self, plan, parts):
        rate = plan.batch_size / (plan.dataset_size - 1)
        return compose(*(worst_case.subsampled_gaussian(noise, rate, count, sampling="fixed_size")
                         for noise, count in parts)).symmetric()

    def unlike(self, plan, steps):
        return steps * order_unlike(plan.dataset_size)

    def rows(self, plan, records):
        return whole_batch(plan)

    def batch(self, plan, key, step, records, drawn, rows):
        # a uniform choice among those of a Poisson sample that surely has enough
        size = whole_batch(plan)
        rate = min((size + 10 * math.sqrt(size) + 60) / records, 1.0)
        drawing, choosing = jax.random.split(key)
        enough = poisson_sample(drawing, records, rate,
                                min(capacity(records, rate, plan.steps) + 1, records))
        found = some_of(choosing, enough, size)
        return found._replace(overflow=found.overflow | ~found.mask[-1])

    def describe(self, plan):
        return (
            f"fixed size: {plan.batch_size:g} of the {plan.dataset_size} records are drawn without "
            "replacement, anew in every step"
        )

    @property
    def reach(self):
        return "twice the clipping norm, for another one has its place"


def some_of(key, batch, rows):
    """The `Batch` of a uniform choice of `rows` of a batch's records; of all, if it has no more."""
    order_of = order(key, batch.indices, batch.mask)[:rows]
    count = jnp.minimum(jnp.sum(batch.mask), rows)
    mask = jnp.arange(rows) < count
    return Batch(jnp.where(mask, order_of, 0), mask, batch.overflow)
