"""Many configurations: one row of certified numbers each; those of DP-SGD a few side by side."""

import json
import math

import numpy as np

from jaxpriv import relaxed, worst_case
from jaxpriv._checks import AT_LEAST_ONE, OPEN_UNIT, POSITIVE, RATE, check_number

_SIDE_BY_SIDE = 32  # few enough that rows appear as work goes on


def sweep(noise_multipliers, sampling_rates, steps, delta=1e-5, relaxed_dim=None):
    """The numbers of DP-SGD for each configuration, in their order, as they are done.

    Args:
        noise_multipliers: in (0, inf); sampling_rates: in (0, 1];
            steps: in 1, 2, 3, ...; of equal lengths.
        delta: in (0, 1).
        relaxed_dim: also the numbers of the relaxed adversary, for a gradient of this dimension.

    Returns: a generator of {"noise_multiplier", "sampling_rate", "steps", "delta", "epsilon_lower",
        "epsilon_upper", "advantage_upper", "gdp_mu"} with the worst case's numbers, and with
        `relaxed_dim` "relaxed": {"dim", the same numbers}. None stands for an upper bound that
        could not be certified.
    Guarantee: "epsilon_upper", "advantage_upper" and the worst case's "gdp_mu" bound the exact
        values, in float64.
    Raises: ValueError for values outside their range, ArithmeticError if a number came out as NaN.
    """
    check(noise_multipliers, sampling_rates, steps, delta, relaxed_dim)
    columns = [np.asarray(values, float) for values in (noise_multipliers, sampling_rates, steps)]
    for start in range(0, len(columns[0]), _SIDE_BY_SIDE):
        batch = [column[start : start + _SIDE_BY_SIDE] for column in columns]
        noises, rates, counts = batch
        found = _numbers(worst_case.subsampled_gaussian(noises, rates, counts), delta)
        weak = None
        if relaxed_dim is not None:
            weak = _numbers(relaxed.subsampled_gaussian(noises, rates, counts, relaxed_dim), delta)
        for i, (noise, rate, count) in enumerate(zip(*batch)):
            row = {"noise_multiplier": float(noise), "sampling_rate": float(rate),
                   "steps": int(count), "delta": float(delta), **_row(found, i)}
            if weak is not None:
                row["relaxed"] = {"dim": relaxed_dim, **_row(weak, i)}
            yield row


def sweep_any(mechanisms, delta=1e-5, with_relaxed=False):
    """The numbers of any mechanisms, one after the other.

    Args:
        mechanisms: each a `Mechanism`, a `DpSgd` or a `Pipeline`; delta: in (0, 1).
        with_relaxed: also the numbers of the weakest relaxed adversary.

    Returns: a generator of {"mechanism": its settings, "delta", and the numbers of `sweep`}, with
        "relaxed": {"adversary", the same numbers}.
    Guarantee: as of `sweep`.
    Raises: ValueError for delta outside its range and where no relaxed adversary is known,
        ArithmeticError if a number came out as NaN.
    """
    check_number("delta", delta, OPEN_UNIT)
    for mechanism in mechanisms:
        worst, *others = mechanism.adversaries()
        if with_relaxed and not others:
            raise ValueError("no relaxed adversary is known of this mechanism")
        row = {"mechanism": settings_of(mechanism), "delta": float(delta),
               **_row(_numbers(worst[2], delta))}
        if with_relaxed:
            name, _, curve = others[-1]
            row["relaxed"] = {"adversary": name, **_row(_numbers(curve, delta))}
        yield row


def settings_of(mechanism):
    """Its settings as JSON has them, with lists for tuples."""
    return json.loads(json.dumps(mechanism.settings()))


def check(noise_multipliers, sampling_rates, steps, delta, relaxed_dim):
    """Raise ValueError for what `sweep` does not accept."""
    for name, values, domain in (("noise_multiplier", noise_multipliers, POSITIVE),
                                 ("sampling_rate", sampling_rates, RATE),
                                 ("steps", steps, AT_LEAST_ONE), ("delta", delta, OPEN_UNIT)):
        check_number(name, values, domain)
    if relaxed_dim is not None:
        check_number("dim", relaxed_dim, AT_LEAST_ONE)


def _numbers(curves, delta):
    """{name: array} of a batch of curves."""
    curves = curves.symmetric()
    lower, upper = curves.epsilon_bounds(delta)
    return {"epsilon_lower": lower, "epsilon_upper": upper,
            "advantage_upper": curves.advantage_bounds()[1], "gdp_mu": curves.gdp_mu_bounds()[1]}


def _row(results, i=()):
    row = {name: float(np.asarray(values)[i]) for name, values in results.items()}
    if any(math.isnan(value) for value in row.values()):
        raise ArithmeticError(f"the sweep came out as NaN: {row}")
    # JSON has no infinity
    return {name: value if math.isfinite(value) else None for name, value in row.items()}
