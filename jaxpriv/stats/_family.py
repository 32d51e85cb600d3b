"""From five log-space kernels of a standard law to the ten public functions of `scipy.stats`,
with loc and scale.

A law file writes the mathematics, as functions of (x or log p, shape parameters) at loc 0 and
scale 1. What is the same for every law stands here once: signature, dtype, domain of the arguments,
the ends of the support, location and scale, exponentials, docstring.
"""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

from jaxpriv import _array as xp
from jaxpriv._checks import POSITIVE, Domain, check_domain
from jaxpriv._types import Answer


class Example(NamedTuple):
    """Arguments of the docstrings' doctests and the four digits that come out."""

    x: float
    shapes: tuple
    logpdf: str
    pdf: str
    logcdf: str
    cdf: str
    logsf: str
    sf: str
    ppf: str
    isf: str
    ppf_exp: str
    isf_exp: str


OPERATIONS = ("logpdf", "pdf", "logcdf", "cdf", "logsf", "sf", "ppf", "isf", "ppf_exp", "isf_exp")
_PROBABILITY = Domain(0.0, 1.0, "[0, 1]")
_LOG_PROBABILITY = Domain(-xp.inf, 0.0, "[-inf, 0]")
_FIRST = {"ppf": ("p", _PROBABILITY), "isf": ("p", _PROBABILITY),
          "ppf_exp": ("logp", _LOG_PROBABILITY), "isf_exp": ("logp", _LOG_PROBABILITY)}
_DOES = {
    "logpdf": "Log density at x",
    "pdf": "Density at x",
    "logcdf": "Log P(X <= x), exact in the lower tail far below the smallest float",
    "cdf": "P(X <= x)",
    "logsf": "Log P(X > x), exact in the upper tail far below the smallest float",
    "sf": "P(X > x)",
    "ppf": "Quantile: the x with cdf(x) = p",
    "isf": "Upper quantile: the x with sf(x) = p",
    "ppf_exp": "Quantile of a log-probability: the x with logcdf(x) = logp",
    "isf_exp": "Upper quantile of a log-probability: the x with logsf(x) = logp",
}


def _standard(operation, kernels):
    """The operation at loc 0 and scale 1."""
    log_name = {"pdf": "logpdf", "cdf": "logcdf", "sf": "logsf"}.get(operation)
    if log_name:
        return lambda x, *shapes: xp.exp(kernels[log_name](x, *shapes))
    if operation in ("ppf", "isf"):
        return lambda p, *shapes: kernels[operation + "_exp"](xp.log(p), *shapes)
    return kernels[operation]


def _at_ends(operation, density_at_start):
    """(value up to the start of the support, value at infinity) of an operation of a variable,
    at loc 0 and scale 1.
    """
    if operation == "logpdf":
        return density_at_start, -xp.inf
    if operation == "pdf":
        finite = density_at_start < xp.inf
        return xp.where(finite, xp.exp(xp.where(finite, density_at_start, 0.0)), xp.inf), 0.0
    ends = {"cdf": (0.0, 1.0), "logcdf": (-xp.inf, 0.0), "sf": (1.0, 0.0), "logsf": (0.0, -xp.inf)}
    return ends[operation]


def _docstring(law, operation, title, shapes, start, source, example):
    first = _FIRST.get(operation, ("x", None))[0]
    arguments = ", ".join(str(float(a)) for a in example.shapes)
    at = {"p": "0.25", "logp": "-10.0"}.get(first, str(example.x))
    call = f"{law}.{operation}({at}{', ' + arguments if arguments else ''})"
    lines = [f"{_DOES[operation]}, for the {title}.", "",
             "Args (they broadcast; the result has the promoted dtype):"]
    if first == "x":
        support = "the real line" if start is None else "x >= 0, below it the density is 0"
        lines.append(
            '    x: `Float[Array, "..."]`, any real, infinite ones included; '
            f'the law lives on {support}.'
        )
    else:
        domain = _FIRST[operation][1]
        lines.append(
            f'    {first}: `Float[Array, "..."]` in {domain.text}; '
            'the ends give the ends of the support.'
        )
    for name, domain in shapes.items():
        lines.append(f'    {name}: `Float[Array, "..."]` in {domain.text}.')
    lines += [
        '    loc, scale: `Float[Array, "..."]`, the law of loc + scale * X; scale in (0, inf).',
        "",
        "Raises: ValueError for a concrete argument outside its range; under `jit` the result is "
        "NaN there. NaN in, NaN out.",
        "Differentiable in every argument, forward and reverse, to second order; "
        "at the ends of the range of the first, and",
        "beyond them, the value is the limit and its derivatives 0.",
        f"Source: {source}",
        "",
        f"    >>> from jaxpriv.stats import {law}",
        f'    >>> print(f"{{{call}:.4g}}")',
        f"    {getattr(example, operation)}",
    ]
    return "\n".join(lines)


def _of_probability(operation, standard, start, p, loc, scale, *shapes):
    """A quantile: `standard` inside the range of p or log p,
    the ends of the support at its ends.
    """
    first = _FIRST[operation][0]
    low, high, middle = (-xp.inf, 0.0, -1.0) if first == "logp" else (0.0, 1.0, 0.5)
    at_low, at_high = p <= low, p >= high
    value = loc + scale * standard(xp.where(at_low | at_high, middle, p), *shapes)
    begin = loc if start is not None else -xp.inf
    ends = (xp.inf, begin) if operation.startswith("isf") else (begin, xp.inf)
    return xp.where(at_low, ends[0], xp.where(at_high, ends[1], value))


def _of_variable(operation, standard, start, x, loc, scale, *shapes):
    """A density or a probability: `standard` inside the support, the limits at its ends."""
    z = (x - loc) / scale
    at_low, at_high = z <= (-xp.inf if start is None else 0.0), z >= xp.inf
    inside = ~(at_low | at_high)
    z = xp.where(inside, (xp.where(inside, x, loc + scale) - loc) / scale, 1.0)
    value = standard(z, *shapes)
    if operation == "logpdf":
        value = value - xp.log(scale)
    elif operation == "pdf":
        value = value / scale
    density = -xp.inf if start is None else xp.where(x == loc, start(*shapes), -xp.inf)
    ends = _at_ends(operation, density - xp.log(scale))
    return xp.where(at_low, ends[0], xp.where(at_high, ends[1], value))


def _public(law, module, operation, title, kernels, shapes, start, source, example):
    standard = _standard(operation, kernels)
    place = _of_probability if operation in _FIRST else _of_variable
    first, first_domain = _FIRST.get(operation, ("x", None))
    domains = {**({first: first_domain} if first_domain else {}), **shapes, "scale": POSITIVE}
    names = (first, *shapes, "loc", "scale")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {"loc": 0.0, "scale": 1.0}
    none = inspect.Parameter.empty
    signature = inspect.Signature(
        [inspect.Parameter(n, kind, default=defaults.get(n, none)) for n in names]
    )

    @xp.jit
    def evaluate(*arguments):
        given = dict(zip(names, arguments))
        valid = xp.ones((), bool)
        for name, domain in domains.items():
            inside = domain.contains(given[name])
            valid = valid & inside
            given[name] = xp.where(inside, given[name], domain.inside)
        shape_values = [given[name] for name in shapes]
        result = place(
            operation, standard, start, given[first], given["loc"], given["scale"], *shape_values
        )
        for argument in arguments:
            valid = valid & ~xp.isnan(argument)
        return xp.where(valid, result, xp.nan)

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, domain in domains.items():
            check_domain(name, bound.arguments[name], domain)
        return xp.in_one_dtype(evaluate, bound.arguments.values())

    function.__name__ = function.__qualname__ = operation
    function.__module__ = module
    function.__dict__["__signature__"] = signature
    function.__doc__ = _docstring(law, operation, title, shapes, start, source, example)
    return function


def law(
    module, *, title, kernels, shapes, source, example, start=None
) -> tuple[Callable[..., Answer], ...]:
    """The ten public functions of a law, in the order of `OPERATIONS`.

    Args:
        module: the law file's `__name__`; its last part is the law's SciPy name.
        title: how the docstrings call the law.
        kernels: {"logpdf", "logcdf", "logsf": f(x, *shapes), "ppf_exp", "isf_exp":
            f(logp, *shapes)} at loc 0, scale 1, for every x inside the support, every finite
            logp < 0 and every shape inside its domain.
        shapes: {name: Domain}, in SciPy's argument order.
        start: None for a law on the real line;
            for a law on x >= 0, f(*shapes) with the log density at 0.
    """
    build = functools.partial(_public, module.rsplit(".", 1)[-1], module, title=title,
                              kernels=kernels, shapes=shapes, start=start, source=source,
                              example=example)
    return tuple(build(operation) for operation in OPERATIONS)
