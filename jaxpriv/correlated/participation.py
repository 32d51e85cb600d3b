"""Who takes part when: what decides how far one record reaches into C x."""

from dataclasses import dataclass
from typing import Any

from jaxpriv._checks import RATE, check_number, check_whole, is_traced


@dataclass(frozen=True)
class MinSeparation:
    """A record takes part in steps that are at least `separation` apart, at most `most` times.

    separation: 1, 2, ...; 1 allows every step. most: 1, 2, ..., or None for as many as there is
    room for, ceil(steps/separation). Fixed orders, epoch by epoch, are among these patterns, with
    the epoch's length as separation.

        >>> MinSeparation(4).times(10)
        3
    """

    separation: int
    most: int | None = None

    def __post_init__(self):
        check_whole("separation", self.separation)
        if self.most is not None:
            check_whole("most", self.most)

    def times(self, steps: int) -> int:
        """How often a record takes part at most."""
        room = -(-steps // self.separation)
        return room if self.most is None else min(room, self.most)


ONCE = MinSeparation(1, most=1)


@dataclass(frozen=True)
class CyclicPoisson:
    """The records are divided into `cycle` groups, each of which has its turn every `cycle` steps;
    a record of the group takes part with probability `rate`, on its own.

    cycle: 1, 2, ...; 1 is Poisson sampling. rate: in (0, 1], within the group: for an expected
    batch size B of n records B/floor(n/cycle), where groups have floor(n/cycle) records and the
    rest is left out. To which group a record belongs must not depend on other records.

        >>> CyclicPoisson(4, 0.1).times(10)
        3
    """

    cycle: int
    rate: Any

    def __post_init__(self):
        check_whole("cycle", self.cycle)
        if not is_traced(self.rate):
            check_number("rate", self.rate, RATE)

    def times(self, steps: int) -> int:
        """How often a record of the first group may take part."""
        return -(-steps // self.cycle)


Participation = MinSeparation | CyclicPoisson
