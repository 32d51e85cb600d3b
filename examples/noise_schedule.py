"""Schedules of noise, and of sampling rates, that beat the constant one at the same
certified privacy budget.

Noisy gradient descent on a strongly convex quadratic, whose excess risk is known in closed form.
Run it from the repository: python examples/noise_schedule.py
"""

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import jaxpriv

EPSILON, DELTA = 2.0, 1e-6
RECORDS, CLIP = 1000, 1.0
PHASES, STEPS = 8, 125  # a phase is 125 steps with one noise and one sampling rate
RATE, NOISE = 0.02, 1.0  # where the other one is optimised
LEARNING_RATE = 0.5
CURVATURES = np.geomspace(0.002, 1.0, 20)  # the Hessian's eigenvalues, ridge included
# of one record's gradient, in each direction: at most that
GRADIENT_VARIANCE = CLIP**2 / len(CURVATURES)


def weights():
    """What unit variance in each coordinate of every gradient of a phase adds to
    the risk at the end.

    x <- x - lr (h x + noise) leaves noise of step t at lr (1 - lr h)^(T-1-t) of its size,
    and the risk is sum h x^2/2.
    """
    left = np.arange(PHASES * STEPS)[::-1]
    each = sum(h / 2 * LEARNING_RATE**2 * (1 - LEARNING_RATE * h) ** (2 * left) for h in CURVATURES)
    return each.reshape(PHASES, STEPS).sum(1)


def excess_risk(noise, rate):
    """Risk at the end above the minimum, apart from what is left of the start: from the privacy
    noise and from sampling.
    """
    batch = rate * RECORDS
    return jnp.sum(
        weights() * ((noise * CLIP / batch) ** 2 + GRADIENT_VARIANCE * (1 - rate) / batch)
    )


def curve(noise, rate):
    """The record's clipped gradient in a Poisson sample of every step: one curve for all phases."""
    noise, rate = jnp.broadcast_arrays(noise, rate)
    phases = jaxpriv.worst_case.gaussian(1 / noise).subsample(rate)
    return jaxpriv.compose(phases, axis=-1).compose(STEPS)


def noises(iterations=80):
    """The best noise multipliers at one sampling rate; the constant ones after 0 iterations."""
    return jaxpriv.accounting.optimise_schedule(
        lambda noise: curve(noise, jnp.full(PHASES, RATE)), lambda noise: -excess_risk(noise, RATE),
        np.ones(PHASES), epsilon=EPSILON, delta=DELTA, iterations=iterations, progress=True)


def rates(iterations=80):
    """The best sampling rates at one noise multiplier."""
    return jaxpriv.accounting.optimise_schedule(lambda rate: curve(jnp.full(PHASES, NOISE), rate),
                                                lambda rate: -excess_risk(NOISE, rate),
                                                np.full(PHASES, RATE), epsilon=EPSILON, delta=DELTA,
                                                largest=1.0, iterations=iterations, progress=True)


def main():
    table = Table(
        title=f"{PHASES} phases of {STEPS} steps, ε = {EPSILON:g}, δ = {DELTA:g}",
        title_justify="left",
    )
    for heading in ("schedule", "excess risk", "gain", "certified δ at ε", "per phase"):
        table.add_column(
            heading, justify="left" if heading in ("schedule", "per phase") else "right"
        )
    for name, search, digits in (("noise multiplier", noises, 2), ("sampling rate", rates, 4)):
        constant, best = search(iterations=0), search()
        for kind, one in (("constant", constant), ("optimised", best)):
            gain = f"{1 - one.utility / constant.utility:.1%}" if one is best else ""
            low, high = one.delta_bounds
            values = " ".join(f"{p:.{digits}f}" for p in one.parameters)
            table.add_row(
                f"{name}, {kind}", f"{-one.utility:.3e}", gain, f"[{low:.13g}, {high:.13g}]", values
            )
    Console(highlight=False, width=165).print(table)


if __name__ == "__main__":
    main()
