"""Samplers that deal the records of an epoch, or of the whole training, into batches."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from jaxpriv import correlated, worst_case
from jaxpriv._checks import check_whole
from jaxpriv.training.sampling.batch import Batch, capacity, chosen
from jaxpriv.training.sampling.poisson import coins
from jaxpriv.training.sampling.sampler import Sampler, of_an_epoch, whole_batch
from jaxpriv.training.sampling.uniform import bins, bins_unlike, order


@dataclasses.dataclass(frozen=True)
class BallsInBins(Sampler):
    """In every epoch each record is put, on its own, into one of ceil(dataset_size/batch_size)
    batches: random allocation.

    Its curve is `worst_case.random_allocation`; an epoch that is not finished counts whole.
    """

    name = "balls_in_bins"
    one_noise = True
    slow = True

    def curve(self, plan, parts):
        ((noise, count),) = parts
        batches = of_an_epoch(plan)
        epochs = math.ceil(count / batches)
        return worst_case.random_allocation(noise, batches, epochs=epochs).symmetric()

    def unlike(self, plan, steps):
        return math.ceil(steps / of_an_epoch(plan)) * bins_unlike(of_an_epoch(plan))

    def rows(self, plan, records):
        fits = capacity(records, 1 / of_an_epoch(plan), plan.steps)
        return min(fits + plan.records_per_user, records)

    def period(self, plan):
        return of_an_epoch(plan)

    def drawn(self, plan, key, records):
        return bins(key, records, of_an_epoch(plan))

    def batch(self, plan, key, step, records, drawn, rows):
        return chosen(drawn == step % of_an_epoch(plan), rows)

    def describe(self, plan):
        return (
            f"balls in bins: every record takes part in one of an epoch's {of_an_epoch(plan)} "
            "steps, chosen at random and anew in every epoch"
        )


@dataclasses.dataclass(frozen=True)
class CyclicPoisson(Sampler):
    """The records are divided into `cycle` groups, once and at random, whose turns come round; of
    the group whose turn it is every record takes part by its own coin.

    Between a record's steps there are `cycle` - 1 others, so that noise with as many bands is
    amplified by sampling: `correlated.CyclicPoisson`. Whoever knows the groups sees one of them in
    every cycle: ceil(steps/cycle) steps of `worst_case.subsampled_gaussian` at the rate
    batch_size cycle/dataset_size.

    Attributes: cycle: 1, 2, ...; 1 is Poisson sampling.
    """

    cycle: int
    name = "cyclic_poisson"
    one_noise = True

    def __post_init__(self):
        check_whole("cycle", self.cycle)

    def check(self, plan):
        if self._rate(plan) > 1:
            raise ValueError(
                f"cycle = {self.cycle} is outside its range 1 ... dataset_size/batch_size = "
                f"{plan.dataset_size / plan.batch_size:g}"
            )

    def _rate(self, plan):
        """Within the group: of dataset_size/cycle records batch_size take part on average."""
        return plan.batch_size * self.cycle / plan.dataset_size

    def curve(self, plan, parts):
        ((noise, count),) = parts
        turns = self.participation(plan).times(count)
        return worst_case.subsampled_gaussian(noise, self._rate(plan), turns).symmetric()

    def participation(self, plan):
        return correlated.CyclicPoisson(self.cycle, self._rate(plan))

    def rows(self, plan, records):
        # of a record's group and its coin together: a batch is Binomial(records, sampling rate)
        fits = capacity(records, plan.sampling_rate, plan.steps)
        return min(fits + plan.records_per_user, records)

    def period(self, plan):
        return plan.steps

    def drawn(self, plan, key, records):
        return bins(key, records, self.cycle)

    def batch(self, plan, key, step, records, drawn, rows):
        part = coins(key, records, self._rate(plan))
        return chosen(part & (drawn == step % self.cycle), rows)

    def describe(self, plan):
        return (
            f"cyclic Poisson: the records are divided at random into {self.cycle} groups, whose "
            f"turns come round; every record of the group takes part with probability "
            f"{self._rate(plan):g}, independently"
        )


class _Listed(Sampler):
    """Samplers that cut a list of all records into batches of batch_size, of which the last may be
    smaller.
    """

    change = "zero_out"
    one_noise = True
    counts_everyone = True
    failure = 0.0

    def check(self, plan):
        whole_batch(plan)

    def rows(self, plan, records):
        return whole_batch(plan)

    def drawn(self, plan, key, records):
        everyone = jnp.arange(records)
        room = of_an_epoch(plan) * whole_batch(plan) - records
        return jnp.pad(order(key, everyone), (0, room), constant_values=-1)

    def batch(self, plan, key, step, records, drawn, rows):
        size = whole_batch(plan)
        start = (step % of_an_epoch(plan)) * size
        some = jax.lax.dynamic_slice_in_dim(drawn, start, size)
        return Batch(jnp.maximum(some, 0), some >= 0, jnp.bool_(False))


@dataclasses.dataclass(frozen=True)
class Shuffled(_Listed):
    """Before every epoch the records are shuffled, and then dealt into batches, as most loaders do.

    Its curve is `worst_case.shuffled_gaussian`, whose brackets are wide: what is certified is what
    can be proven.
    """

    name = "shuffled"
    slow = True

    def curve(self, plan, parts):
        ((noise, count),) = parts
        batches = of_an_epoch(plan)
        return worst_case.shuffled_gaussian(noise, batches, math.ceil(count / batches)).symmetric()

    def period(self, plan):
        return of_an_epoch(plan)

    def describe(self, plan):
        return (
            "shuffled: the data set is permuted before each epoch and dealt into "
            f"{of_an_epoch(plan)} batches; upper ends are proven, lower ends are what attacks "
            "reach in whole epochs"
        )


@dataclasses.dataclass(frozen=True)
class InOrder(_Listed):
    """The records have an order, drawn once, in which they take part epoch by epoch.

    Nothing is gained by sampling: the adversary may know the order. But a record's steps are an
    epoch apart, which is what correlated noise asks for: `correlated.MinSeparation`.
    """

    name = "in_order"

    def curve(self, plan, parts):
        ((noise, count),) = parts
        return correlated.curve(correlated.Identity(), noise, int(count), self.participation(plan))

    def participation(self, plan):
        return correlated.MinSeparation(of_an_epoch(plan))

    def period(self, plan):
        return plan.steps

    def describe(self, plan):
        return (
            f"in order: every record takes part in one of an epoch's {of_an_epoch(plan)} steps, "
            "the same in every epoch"
        )
