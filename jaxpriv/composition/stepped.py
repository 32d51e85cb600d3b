"""What transforms of steps have in common in which the record may take part, or not."""

from dataclasses import replace
from typing import Any, cast

from jaxpriv import _array as xp
from jaxpriv._derived import derived


class Stepped:
    """A transform with fields or properties `mu`, the largest shift, `rate` and `reverse` (bool);
    between two whole numbers of its steps there is no mechanism.
    """

    mu: Any
    rate: Any
    reverse: Any

    @property
    def apart(self):
        """The mu of a Gaussian curve below that of a step."""
        return self.mu

    def audible(self):
        """(is there no signal?, the transform with one there, for it divides by it)."""
        silent = self.mu == 0
        return silent, replace(cast(Any, self), mu=xp.where(silent, 1.0, self.mu))

    def whole(self, count, up):
        """A whole number of steps next to `count`, unless the record always takes part,
        when every number is one.
        """
        return derived(_steps_up if up else _steps_down, count, self.rate)


def _steps_up(count, rate):
    return xp.where(rate < 1, xp.ceil(count), count)


def _steps_down(count, rate):
    return xp.where(rate < 1, xp.floor(count), count)
