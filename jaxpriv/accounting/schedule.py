"""Schedules of noise or sampling rates by gradient: the most useful one within a privacy budget."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._checks import NONNEGATIVE, POSITIVE, Domain, check_domain
from jaxpriv.curve import Curve

_PROPER = Domain(0.0, 1.0, "(0, 1)", open_low=True, open_high=True)
_ON_BUDGET = 1e-6  # of log delta, for every iterate; utilities are off by less
_AT_LAST = 1e-10
_NEWTON = 60
_NUDGES = 40


class Schedule(NamedTuple):
    """Parameters of the steps with what they are worth and what they cost.

    utility: of `parameters`; delta_bounds: certified (lower, upper) of delta at the budget's
    epsilon, both directions; history: the utility of every iterate, each on the budget;
    the first is `start`, scaled.
    """

    parameters: Any
    utility: float
    delta_bounds: tuple
    history: np.ndarray


def optimise_schedule(
    make_curve: Callable[[Any], Curve], utility: Callable[[Any], Any], start: Any, *,
    epsilon: float, delta: float, largest: float = math.inf, optimizer: Any = None,
    iterations: int = 200, progress: bool = False,
) -> Schedule:
    """The schedule of greatest utility that gradient ascent finds among those which spend
    one privacy budget.

    Args:
        make_curve: parameters -> `Curve`, as a pure function: every parameter more private in the
            same sense (all noises, or all rates). `jaxpriv.compose(..., axis=-1)` for steps,
            `compose` of `curve.compose(n)` for phases.
        utility: parameters -> scalar, differentiable, larger for less privacy.
        start: a pytree of arrays in (0, largest): the shape to start from;
            its scale does not matter.
        epsilon: >= 0, with delta in (0, 1): the budget.
        largest: the bound of the parameters: 1 for sampling rates.
        optimizer: an `optax.GradientTransformation` for the logs of the parameters; Adam from a
            rate of 0.1 down to 0 if None.
        iterations: how many steps it takes, of about two gradients of the composition each;
            0 only scales `start`.
        progress: show a bar on a terminal.

    Returns: the best `Schedule` that was seen, in float64 NumPy arrays.
        A local optimum, if the steps were enough.
    Guarantee: `delta_bounds[1] <= delta` at the returned parameters, against both directions
        (`symmetric()`); evaluated there before returning.
    Raises: ValueError for values outside their range, if no scale of `start` spends the budget, and
        if the optimizer diverges.
    Source: implicit differentiation of the constraint, derived in this module.

        >>> import jax.numpy as jnp, jaxpriv
        >>> weights = jnp.array(
        ...     [1.0, 16.0]
        ... )  # of plain releases the best variances go like 1/sqrt(weight)
        >>> best = jaxpriv.accounting.optimise_schedule(
        ...     lambda noise: jaxpriv.compose(jaxpriv.worst_case.gaussian(1 / noise), axis=-1),
        ...     lambda noise: -jnp.sum(weights * noise**2), jnp.ones(2), epsilon=1.0, delta=1e-5)
        >>> print(f"{best.parameters[0]**2 / best.parameters[1]**2:.3f}")
        4.000
    """
    import optax  # with the progress bar a third of the time that the whole package takes to import
    from rich.console import Console
    from rich.progress import Progress

    _check(start, epsilon, delta, largest, iterations)
    with jax.enable_x64(True):
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        problem = _Problem(make_curve, utility, float(epsilon), math.log(delta), float(largest))
        logs = jax.tree.map(lambda p: jnp.log(p) - jnp.log1p(-p / largest), start)
        logs, slopes = problem.on_budget(problem.found(logs))
        if optimizer is None:
            optimizer = optax.adam(optax.cosine_decay_schedule(0.1, max(iterations, 1)))
        state = optimizer.init(logs)
        value, rise = problem.worth(logs)
        history, best = [float(value)], (float(value), logs)
        console = Console()
        with Progress(
            console=console, disable=not (progress and console.is_terminal), transient=True
        ) as bar:
            for _ in bar.track(range(iterations), description="schedule"):
                change, state = optimizer.update(_along_budget(rise, slopes), state, logs)
                logs, slopes = problem.on_budget(optax.apply_updates(logs, change))
                value, rise = problem.worth(logs)
                history.append(float(value))
                if history[-1] > best[0]:
                    best = history[-1], logs
        return problem.verified(best[1], float(delta), np.asarray(history))


def _check(start, epsilon, delta, largest, iterations):
    check_domain("epsilon", epsilon, NONNEGATIVE)
    check_domain("delta", delta, _PROPER)
    if not largest > 0:
        raise ValueError(f"largest = {largest} is outside its range (0, inf]")
    if iterations != int(iterations) or iterations < 0:
        raise ValueError(f"iterations = {iterations} is not a whole number >= 0")
    domain = (
        POSITIVE
        if largest == math.inf
        else Domain(0.0, largest, f"(0, {largest:g})", open_low=True, open_high=True)
    )
    for leaf in jax.tree.leaves(start):
        check_domain("start", leaf, domain)


def _along_budget(rise, slopes):
    """The descent direction -dU/dz on the budget.

    With z the logs, p = e^(z + l) and the scale l(z) that keeps
    g(z + l) = log delta: dl/dz_i = -g_i/sum g, because l moves all logs alike, and so
    dU/dz_i = U_i - (sum U) g_i/sum g, at l = 0.
    """
    share = _total(rise) / _total(slopes)
    return jax.tree.map(lambda u, g: share * g - u, rise, slopes)


def _total(tree):
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))


def _shifted(logs, by):
    return jax.tree.map(lambda z: z + by, logs)


class _Problem:
    """Utility and privacy as functions of logs z,
    the parameters being x/(1 + x/largest), x = e^z.
    """

    def __init__(self, make_curve, utility, epsilon, log_delta, largest):
        self.make_curve, self.epsilon = make_curve, epsilon
        self.log_delta, self.largest = log_delta, largest
        self.worth = jax.jit(jax.value_and_grad(lambda logs: utility(self.parameters(logs))))
        cost = jax.value_and_grad(lambda logs: self.curve(self.parameters(logs)).log_delta(epsilon))
        self.cost_and_slopes = jax.jit(cost)

    def parameters(self, logs):
        return jax.tree.map(lambda z: 1 / (jnp.exp(-z) + 1 / self.largest), logs)

    def curve(self, parameters):
        """Both directions: the budget must hold against both."""
        return self.make_curve(parameters).symmetric()

    def found(self, logs):
        """Logs at a scale where delta is neither 0 nor 1, so that its slope is of use."""
        for size in (0.0, 1.0, 2.0, 4.0, 8.0):
            for by in (size, -size):
                cost = float(self.cost_and_slopes(_shifted(logs, by))[0])
                if -1e4 < cost < -1e-9:
                    return _shifted(logs, by)
        raise ValueError(
            f"start: delta is 0 or 1 at epsilon = {self.epsilon:g} at every scale from e^-8 to e^8"
        )

    def on_budget(self, logs, tolerance=_ON_BUDGET):
        """Logs moved to the scale that spends the budget, and the slopes of log delta there:
        Newton's steps, of at most 1.
        """
        for _ in range(_NEWTON):
            cost, slopes = self.cost_and_slopes(logs)
            excess, slope = float(cost) - self.log_delta, float(_total(slopes))
            if abs(excess) <= tolerance:
                return logs, slopes
            if not math.isfinite(excess / slope if slope else math.nan):
                break
            logs = _shifted(logs, min(max(-excess / slope, -1.0), 1.0))
        raise ValueError(
            f"no scale of the schedule has log delta = {self.log_delta:.6g} at epsilon = "
            f"{self.epsilon:g}; the last one tried has {float(cost):.6g}"
        )

    def verified(self, logs, delta, history):
        """The schedule at these logs, moved to the private side until its upper bound holds."""
        logs, slopes = self.on_budget(logs, _AT_LAST)
        private = -math.copysign(1.0, float(_total(slopes)))
        for nudge in range(_NUDGES):
            moved = _shifted(logs, private * (1e-13 * 2.0**nudge if nudge else 0.0))
            parameters = jax.tree.map(np.asarray, self.parameters(moved))
            bounds = tuple(float(end) for end in self.curve(parameters).delta_bounds(self.epsilon))
            if bounds[1] <= delta:
                return Schedule(parameters, float(self.worth(moved)[0]), bounds, history)
        raise ValueError(
            f"the certified upper bound {bounds[1]:.6g} of delta stays above {delta:g} near the "
            "optimum: the bracket of this composition is too wide"
        )
