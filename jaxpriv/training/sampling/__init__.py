"""Ways to draw batches, each tied to the curve that certifies it: a plan holds its sampler, and no
training draws in another way than its plan says.
"""

import dataclasses

from jaxpriv.training.sampling.batch import Batch, capacity
from jaxpriv.training.sampling.each_step import CutPoisson, FixedSize, Poisson
from jaxpriv.training.sampling.epochs import BallsInBins, CyclicPoisson, InOrder, Shuffled
from jaxpriv.training.sampling.poisson import poisson_sample
from jaxpriv.training.sampling.sampler import Sampler
from jaxpriv.training.sampling.users import limit_records

SAMPLERS = {kind.name: kind for kind in (Poisson, CutPoisson, FixedSize, BallsInBins, CyclicPoisson,
                                         Shuffled, InOrder)}


def sampler_of(settings):
    """The sampler whose `settings()` these are. Raises: ValueError for what none has.

    >>> sampler_of({"name": "cut_poisson", "largest_batch": 64})
    CutPoisson(largest_batch=64)
    """
    settings = dict(settings)
    name = settings.pop("name", None)
    if name not in SAMPLERS:
        raise ValueError(f"sampler = {name!r}; accepted: {', '.join(SAMPLERS)}")
    kind = SAMPLERS[name]
    wanted = [field.name for field in dataclasses.fields(kind)]
    if set(settings) != set(wanted):
        raise ValueError(
            f"sampler {name} takes {', '.join(wanted) or 'no settings'}; got "
            f"{', '.join(settings) or 'none'}"
        )
    return kind(**settings)


__all__ = ["SAMPLERS", "BallsInBins", "Batch", "CutPoisson", "CyclicPoisson", "FixedSize",
           "InOrder", "Poisson", "Sampler", "Shuffled", "capacity", "limit_records",
           "poisson_sample", "sampler_of"]
