"""DP-SGD over many configurations: one row of certified numbers each, in batches that are spread over all devices."""

import math
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxpriv import relaxed, worst_case
from jaxpriv._checks import AT_LEAST_ONE, OPEN_UNIT, POSITIVE, RATE, check_number

_PER_DEVICE = 32  # rows of a batch: few enough that rows appear as work goes on, enough to keep a processor's vectors full


def sweep(noise_multipliers, sampling_rates, steps, delta=1e-5, relaxed_dim=None):
    """The numbers of DP-SGD for each configuration, in their order, as batches are done.

    Args:
        noise_multipliers: in (0, inf); sampling_rates: in (0, 1]; steps: in 1, 2, 3, ...; of equal lengths.
        delta: in (0, 1).
        relaxed_dim: also the numbers of the relaxed adversary, for a gradient of this dimension.

    Returns: a generator of {"noise_multiplier", "sampling_rate", "steps", "delta", "epsilon_lower", "epsilon_upper",
        "advantage_upper", "gdp_mu"} with the worst case's numbers, and with `relaxed_dim` "relaxed": {"dim", the same
        numbers}. None stands for an upper bound that could not be certified.
    Guarantee: "epsilon_upper", "advantage_upper" and the worst case's "gdp_mu" bound the exact values, in float64.
    Raises: ValueError for values outside their range, ArithmeticError if a number came out as NaN.
    """
    check(noise_multipliers, sampling_rates, steps, delta, relaxed_dim)
    columns = [np.asarray(values, float) for values in (noise_multipliers, sampling_rates, steps)]
    devices = len(jax.devices())
    total = len(columns[0])
    size = devices * min(_PER_DEVICE, -(-total // devices))
    for start in range(0, total, max(size, 1)):
        batch = [column[start : start + size] for column in columns]
        count = len(batch[0])
        # of one shape, for one program: the last batch repeats its last row
        padded = [np.pad(column, (0, size - count), mode="edge") for column in batch]
        results = {"worst case": jax.device_get(numbers(worst_case_curve, *padded, delta))}
        if relaxed_dim is not None:
            results["relaxed"] = jax.device_get(numbers(relaxed_curve, *padded, delta, relaxed_dim))
        for i in range(count):
            noise, rate, steps = (column[i] for column in batch)
            row = {"noise_multiplier": float(noise), "sampling_rate": float(rate), "steps": int(steps), "delta": float(delta),
                   **_row(results["worst case"], i)}
            if relaxed_dim is not None:
                row["relaxed"] = {"dim": relaxed_dim, **_row(results["relaxed"], i)}
            yield row


def check(noise_multipliers, sampling_rates, steps, delta, relaxed_dim):
    """Raise ValueError for what `sweep` does not accept."""
    for name, values, domain in (("noise_multiplier", noise_multipliers, POSITIVE), ("sampling_rate", sampling_rates, RATE),
                                 ("steps", steps, AT_LEAST_ONE), ("delta", delta, OPEN_UNIT)):
        check_number(name, values, domain)
    if relaxed_dim is not None:
        check_number("dim", relaxed_dim, AT_LEAST_ONE)


def _row(results, i):
    row = {name: float(values[i]) for name, values in results.items()}
    if any(math.isnan(value) for value in row.values()):
        raise ArithmeticError(f"the sweep came out as NaN: {row}")
    return {name: value if math.isfinite(value) else None for name, value in row.items()}  # JSON has no infinity


def worst_case_curve(noise_multiplier, sampling_rate, steps):
    return worst_case.subsampled_gaussian(noise_multiplier, sampling_rate, steps).symmetric()


def relaxed_curve(noise_multiplier, sampling_rate, steps, dim):
    return relaxed.subsampled_gaussian(noise_multiplier, sampling_rate, steps, dim).symmetric()


def numbers(make_curve, noise_multipliers, sampling_rates, steps, *settings):
    """{name: array} of a batch of configurations, each array spread over all devices: their number divides the length.

    Every device runs its own loops to its own end (shard_map). Partitioned by the compiler instead, the devices would wait
    for each other after every look at what is left to do.

    Args:
        make_curve: a module-level function of the configuration and of `settings[1:]`.
        settings: delta, then what `make_curve` takes beside the configuration.
    """
    mesh = Mesh(np.asarray(jax.devices()), ("configurations",))
    with jax.enable_x64(True):
        spread = NamedSharding(mesh, PartitionSpec("configurations"))
        columns = [jax.device_put(np.asarray(column, float), spread) for column in (noise_multipliers, sampling_rates, steps)]
        return _numbers(make_curve, mesh, columns, tuple(map(float, settings)))


@partial(jax.jit, static_argnums=(0, 1))
def _numbers(make_curve, mesh, columns, settings):
    def of_one_device(columns, settings):
        delta, *others = settings
        curve = make_curve(*columns, *others)
        lower, upper = curve.epsilon_bounds(delta)
        return {"epsilon_lower": lower, "epsilon_upper": upper, "advantage_upper": curve.delta_bounds(0.0)[1],
                "gdp_mu": curve.gdp_mu()}

    along = PartitionSpec("configurations")
    # check_vma: the loops start from constants, which are the same on all devices, and end with what is not
    split = jax.shard_map(of_one_device, mesh=mesh, in_specs=(along, PartitionSpec()), out_specs=along, check_vma=False)
    return split(columns, settings)
