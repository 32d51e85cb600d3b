"""What every way to draw batches has to say: its batches, its curve, and both in words.

A sampler goes with a plan (`jaxpriv.training.Plan`, which holds it): so many records, an expected
batch size, and steps. What it draws and what it claims are one object, so that a training cannot
draw in one way and be accounted in another.
"""

import abc
import dataclasses
from typing import ClassVar

FAILURE = 1e-12
_ZEROED = "places stay as they are, and what was there adds nothing"
_CHANGES = {"add_remove": "add/remove", "zero_out": "zero out"}


@dataclasses.dataclass(frozen=True)
class Sampler(abc.ABC):
    """How records come into the batches of a training.

    Class attributes:
        name: in configurations and on certificates. change: "add_remove" or "zero_out", which data
            sets are neighbours. one_noise: whether all steps must have the same noise.
            counts_everyone: whether `dataset_size` has to count canaries. most: how far a record
            moves the sum of a batch, in clipping norms. slow: whether a bound of its curve takes
            as long as half a second.
    """

    name: ClassVar[str]
    change: ClassVar[str] = "add_remove"
    one_noise: ClassVar[bool] = False
    counts_everyone: ClassVar[bool] = False
    most: ClassVar[float] = 1.0
    slow: ClassVar[bool] = False
    # whether a batch has room for a record does not depend on that record, but with a probability
    # below this: how many others are drawn has one law with it and without it, and the mean of
    # deltas given that number is what counts, of which this part is at most 1
    failure: ClassVar[float] = FAILURE

    def check(self, plan):
        """Raise ValueError for a plan whose batches cannot be drawn so."""
        del plan

    @abc.abstractmethod
    def curve(self, plan, parts):
        """The curve of both directions, of one record.

        parts: [(noise multiplier, number of steps)]; with `one_noise` a single one.
        """

    def user_curve(self, plan, parts):
        """The curve of a user's `plan.records_per_user` records together."""
        return self.curve(plan, parts).group(plan.records_per_user)

    def participation(self, plan):
        """In the words of `jaxpriv.correlated`; None where nothing is known of correlated noise."""
        return None

    def unlike(self, plan, steps):
        """The total variation distance of one record's part in so many steps, as it is drawn, from
        the law that is accounted, at most.
        """
        return 0.0

    @abc.abstractmethod
    def rows(self, plan, records):
        """The physical batch, which is too small in the whole training with a probability below
        `failure`, with room left for what a user has.
        """

    def period(self, plan):
        """The number of steps that `drawn` is for."""
        return 1

    def drawn(self, plan, key, records):
        """What is drawn once for all steps of a period."""
        return ()

    @abc.abstractmethod
    def batch(self, plan, key, step, records, drawn, rows):
        """The `Batch` of a step, of `rows` or fewer. key: of this step; drawn: of its period."""

    @abc.abstractmethod
    def describe(self, plan):
        """How batches are drawn, in one sentence."""

    def adjacency(self, plan):
        """Which data sets are neighbours, in one sentence."""
        user = plan.records_per_user > 1
        whom = f"one user with all of its records, {plan.records_per_user} at most," if user else (
            "one record"
        )
        zeroed = f"{_ZEROED}; " if self.change == "zero_out" else ""
        moved = "each record" if user else "it"
        return (
            f"{_CHANGES[self.change]} {whom} ({zeroed}{moved} moves a sum of clipped gradients by "
            f"at most {self.reach})"
        ).replace(", (", " (")

    @property
    def reach(self):
        """How far a record moves the sum of a batch, in words."""
        return "the clipping norm"

    def settings(self):
        """Everything that makes another of the same kind: {"name", ...}."""
        return {"name": self.name, **dataclasses.asdict(self)}


def whole_batch(plan):
    """The batch size as an int. Raises: ValueError where it is none."""
    if not float(plan.batch_size).is_integer():
        raise ValueError(
            f"batch_size = {plan.batch_size:g} is not whole, and {plan.sampler.name} batches have "
            "exactly so many records"
        )
    return int(plan.batch_size)


def of_an_epoch(plan):
    """The number of batches that the records are dealt into: ceil(dataset_size/batch_size)."""
    return -int(-plan.dataset_size // plan.batch_size)
