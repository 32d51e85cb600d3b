"""One root finder for increasing functions: Newton's step, or a secant's, where it stays in the
bracket and shrinks it, bisection elsewhere.
"""

from jaxpriv import _array as xp

# of a function's value, beside which a step of rounding's size is taken for the last
_NOTHING = 1e-9


def newton_in_bracket(function, low, high, iterations=40, start=None, tolerance=None):
    """The x in [low, high] where an increasing function crosses zero, elementwise:
    the best of a fixed number of tries. Also of bends and steps, where Newton's may not converge.

    Args:
        function: x -> (value, slope); the slope may be rough, zero or infinite,
            for it only proposes a step.
        low, high: arrays; finite ends are used as they are,
            a value beyond the function's range gives the nearer end.
        start: the first try, the middle where it is not given.
        tolerance: where it is given, the tries end as soon as the next ones would all be this near,
            and these are the answer: for roots inside a rule for derivatives, since such a loop has
            none of its own in reverse.
    """
    return _in_bracket(lambda x, _: (*function(x), ()), (), low, high, iterations, start, tolerance)


def secant_in_bracket(function, low, high, iterations=40, start=None, tolerance=None):
    """The same of a function x -> value whose slope is not known: by that of the last two tries."""

    def ask(x, known):
        at, before, slope = known
        value = function(x)
        rise, run = value - before, x - at
        # where only rounding tells two tries apart the slope before serves
        seen = (rise * run > 0) & xp.isfinite(rise)
        slope = xp.where(seen, rise / xp.where(seen, run, 1.0), slope)
        return value, slope, (x, value, slope)

    nothing = xp.zeros_like(low)
    known = low, nothing + xp.nan, nothing
    return _in_bracket(ask, known, low, high, iterations, start, tolerance)


def _in_bracket(ask, known, low, high, iterations, start=None, tolerance=None):
    """ask: (x, what the last try told) -> (value, slope, what this one tells)."""

    def step(state):
        count, low, high, x, best, smallest, _, last, before, known = state
        value, slope, known = ask(x, known)
        size = xp.abs(value)
        # where two steps do not halve the value Newton's tries may go round and round
        stuck = (size > 0.5 * before) & (size > _NOTHING)
        # the iterate after the root, where rounding is all that is left, may be thrown to the
        # bracket's middle; of a step's equal values the last is nearest to its end
        best = xp.where(size <= smallest, x, best)
        smallest = xp.minimum(xp.where(xp.isnan(size), xp.inf, size), smallest)
        low = xp.where(value <= 0, x, low)
        high = xp.where(value >= 0, x, high)
        proposal = x - value / xp.where(slope > 0, slope, 1.0)
        # at the root rounding alone decides on which side of it the proposal is
        there = (size < _NOTHING) & (xp.abs(proposal - x) <= 4 * ulp * xp.abs(x))
        good = (slope > 0) & ((proposal > low) & (proposal < high) | there)
        proposal = xp.where(good & ~stuck, proposal, 0.5 * low + 0.5 * high)
        change = xp.abs(proposal - x)
        return count + 1, low, high, proposal, best, smallest, change, size, last, known

    ulp = xp.finfo(low.dtype).eps
    start = 0.5 * low + 0.5 * high if start is None else xp.clip(start, low, high)
    endless = xp.full_like(start, xp.inf)
    state = 0, low, high, start, start, endless, endless, endless, endless, known
    if tolerance is None:

        def settled(state):
            """Is rounding all that moves?"""
            return xp.all(state[6] <= 4 * ulp * xp.abs(state[3]))

        return xp.fori_loop(0, iterations, lambda _, state: step(state), state, settled)[4]
    found = xp.while_loop(
        lambda state: (state[0] < iterations) & xp.any(state[6] > tolerance), step, state
    )
    return xp.where(found[6] <= tolerance, found[3], found[4])
