"""Groups of the arrays of a model, each clipped to its share of the clipping norm."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax

from jaxpriv._checks import SCALE, check_number

# float32 and float64 sums of squares of a few shares
_ROUNDED = 1e-9


@dataclass(frozen=True)
class Groups:
    """Which arrays are clipped together, and how much of the clipping norm each group has.

    Attributes:
        of: (path) -> name of the array's group, for paths like "['encoder']['kernel']".
        shares: {name: share of clip_norm}, in [1e-15, 1], with squares that add up to at most 1;
            1/G^1/2 for each of G groups unless given.

    A group g is clipped to share_g clip_norm; together a record's gradient is no longer than
    (sum_g share_g^2)^1/2 clip_norm <= clip_norm, so it is the same mechanism as without groups.
    Raises: ValueError for shares outside their range.
    Source: McMahan et al. 2018; He et al. 2023.

        >>> import jax.numpy as jnp
        >>> groups = Groups(lambda path: "head" if "head" in path else "body",
        ...                 {"head": 0.6, "body": 0.8})
        >>> groups.limits({"body": [jnp.ones(2), jnp.ones(3)], "head": jnp.ones(1)})
        ([0, 0, 1], [0.8, 0.6])
    """

    of: Callable[[str], str]
    shares: Mapping[str, float] | None = None

    def __post_init__(self):
        if not callable(self.of):
            raise ValueError(f"of = {self.of!r} is no function; accepted: (path) -> name")
        if self.shares is not None:
            for name, share in self.shares.items():
                check_number(f"shares[{name!r}]", share, SCALE)
            total = math.fsum(share * share for share in self.shares.values())
            if total > 1 + _ROUNDED:
                raise ValueError(f"squares of shares add up to {total:g}; accepted: at most 1")

    def limits(self, parameters):
        """([group of each leaf], [share of each group]) of a pytree of parameters.

        Raises: ValueError where a group has no share, or a share no group.
        """
        paths = [path for path, _ in jax.tree.leaves_with_path(parameters)]
        names = [self.of(jax.tree_util.keystr(path)) for path in paths]
        groups = list(dict.fromkeys(names))
        shares = self.shares
        if shares is None:
            shares = dict.fromkeys(groups, 1 / math.sqrt(max(len(groups), 1)))
        if set(shares) != set(groups):
            raise ValueError(f"groups {sorted(map(str, groups))} have shares for "
                             f"{sorted(map(str, shares))}; accepted: one share for each")
        # what rounding lets squares exceed 1 by is taken off
        over = max(math.sqrt(math.fsum(share * share for share in shares.values())), 1.0)
        return [groups.index(name) for name in names], [shares[name] / over for name in groups]
