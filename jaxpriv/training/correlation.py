"""Which noise a plan has: independent, or correlated by a strategy that is optimised for it."""

from jaxpriv import correlated
from jaxpriv._checks import POSITIVE, check_number, check_whole
from jaxpriv.training.sampling import CyclicPoisson, InOrder, Poisson

_BANDS, _BUFFERS = 32, 3  # in order: each is one more copy of the parameters in memory


def noise_of(noise, sampler, privacy, dataset_size, batch_size, steps):
    """(sampler, strategy) of a plan.

    Args: noise, sampler: as `make_plan` takes them. privacy: the target, a `Privacy`, by which the
        number of bands is chosen where it is free. The others: of the plan.

    Raises: ValueError for an unknown noise, and a sampler that does not go with it.
    """
    if not isinstance(noise, str):
        return sampler or Poisson(), noise
    if noise == "independent":
        return sampler or Poisson(), correlated.Identity()
    if noise not in ("banded", "buffered"):
        raise ValueError(
            f"noise = {noise!r}; accepted: 'independent', 'discrete', 'banded', 'buffered', "
            "a strategy"
        )
    check_whole("steps", steps)
    check_number("batch_size", batch_size, POSITIVE)
    if noise == "banded" and sampler is None:
        best = correlated.plan(steps, dataset_size, batch_size, **privacy.target).best
        if best.bands == 1:
            return Poisson(), correlated.Identity()
        return CyclicPoisson(best.bands), best.strategy
    participation: correlated.CyclicPoisson | correlated.MinSeparation
    if noise == "banded" and isinstance(sampler, CyclicPoisson):
        begin = correlated.banded_square_root(min(sampler.cycle, steps))
        participation = correlated.CyclicPoisson(sampler.cycle, 1.0)
    elif isinstance(sampler, InOrder):
        apart = -int(-dataset_size // batch_size)
        participation = correlated.MinSeparation(apart)
        begin = (correlated.banded_square_root(min(_BANDS, apart, steps)) if noise == "banded"
                 else correlated.buffered_square_root(_BUFFERS, steps))
    else:
        raise ValueError(
            f"noise = {noise!r} with {(sampler or Poisson()).name} batches; accepted: "
            f"{'cyclic_poisson, ' if noise == 'banded' else ''}in_order"
        )
    return sampler, correlated.optimise(begin, steps, participation).strategy
