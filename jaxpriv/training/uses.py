"""How a loss uses its parameters, read off its jaxpr, and the loss with those uses laid open: what
goes into each beside the parameter, and a place where the cotangent of what comes out appears.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

# calls that are nothing but their body; custom derivatives are not: theirs is another gradient
_REMAT = {"remat", "remat2", "checkpoint"}
_CALLS = {"jit", "pjit", "closed_call", "core_call"} | _REMAT
_MODES = (jax.lax.GatherScatterMode.FILL_OR_DROP, jax.lax.GatherScatterMode.CLIP,
          jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


class Use(NamedTuple):
    """Where a parameter is used: the equation, the way there (its number in the jaxpr, and those of
    the calls around it), and the equations of one operand each that laid out the parameter before.
    """

    path: tuple
    equation: Any
    operand: int
    layout: tuple

    @property
    def is_table(self):
        return self.equation.primitive.name == "gather"

    def sizes(self):
        """(rows t, entries of what meets the parameter p, of what comes out of it d): the gradient
        is a p x d matrix, the sum of t outer products. A row of a table is met by its number.
        """
        shape = self.equation.invars[self.operand].aval.shape
        out = math.prod(self.equation.outvars[0].aval.shape)
        if self.is_table:
            d = math.prod(shape[1:])
            return out // max(d, 1), shape[0], d
        contracted = self.equation.params["dimension_numbers"][0][self.operand]
        p = math.prod(shape[axis] for axis in contracted)
        d = math.prod(shape) // max(p, 1)
        return out // max(d, 1), p, d

    def operand_gradient(self, matrix):
        """The gradient of the parameter from its p x d matrix: layouts keep every entry."""
        shape = self.equation.invars[self.operand].aval.shape
        if self.is_table:
            gradient = matrix.reshape(shape)
        else:
            contracted = list(self.equation.params["dimension_numbers"][0][self.operand])
            order = contracted + [axis for axis in range(len(shape)) if axis not in contracted]
            gradient = jnp.reshape(matrix, [shape[axis] for axis in order])
            gradient = jnp.transpose(gradient, [order.index(axis) for axis in range(len(shape))])
        for equation in reversed(self.layout):
            if equation.primitive.name != "convert_element_type":  # in the matrix's own precision
                before = jax.ShapeDtypeStruct(equation.invars[0].aval.shape, gradient.dtype)
                (gradient,) = jax.linear_transpose(
                    lambda x, equation=equation: equation.primitive.bind(x, **equation.params),
                    before,
                )(gradient)
        return gradient

    def rows(self, met, delta):
        """(what meets the parameter, t x p, or numbers of rows, t; the cotangent, t x d)."""
        t, p, d = self.sizes()
        if self.is_table:
            ids = met.reshape(t)
            if self.equation.params["mode"] == jax.lax.GatherScatterMode.CLIP:
                ids = jnp.clip(ids, 0, p - 1)
            inside = (ids >= 0) & (ids < p)
            return jnp.where(inside, ids, p), jnp.where(inside[:, None], delta.reshape(t, d), 0)
        contracting, _ = self.equation.params["dimension_numbers"]
        # in the order in which the parameter's axes are contracted
        other = list(contracting[1 - self.operand])
        free = [axis for axis in range(met.ndim) if axis not in other]
        met = jnp.transpose(met, free + other).reshape(t, p)
        delta = delta.reshape(t, d) if self.operand == 1 else delta.reshape(d, t).T
        return met, delta


def uses_of(jaxpr, count):
    """For each of the first `count` arguments its only `Use` in a product or as a table, or None:
    used in another way, more than once, in a loop, or not at all.
    """
    found: list = [[] for _ in range(count)]
    results = _walk(jaxpr, {var: (i, ()) for i, var in enumerate(jaxpr.invars[:count])}, (), found)
    for i, _ in results.values():
        found[i].append(None)
    return [uses[0] if len(uses) == 1 else None for uses in found]


def _walk(jaxpr, origins, path, found):
    """Append to found[i] each use of parameter i, None where it is of another kind.

    origins: {variable: (i, layout)} of arguments that are a parameter, laid out. Returns
    {number: (i, layout)} of such results.
    """
    def origin(var):
        return None if isinstance(var, Literal) else origins.get(var)

    for number, equation in enumerate(jaxpr.eqns):
        here = (*path, number)
        known = {k: origin(var) for k, var in enumerate(equation.invars) if origin(var)}
        if not known:
            continue
        if equation.primitive.name in _CALLS:
            body, _ = _body(equation)
            inner = {body.invars[k]: each for k, each in known.items()}
            for k, each in _walk(body, inner, here, found).items():
                origins[equation.outvars[k]] = each
        elif _is_layout(equation):
            i, layout = known[0]
            origins[equation.outvars[0]] = (i, (*layout, equation))
        else:
            for k, (i, layout) in known.items():
                # of two parameters each other is what they meet: no gradient is then smaller
                good = len(known) == 1 and (
                    _is_product(equation) or (k == 0 and _is_table(equation))
                )
                found[i].append(Use(here, equation, k, layout) if good else None)
    return {k: origin(var) for k, var in enumerate(jaxpr.outvars) if origin(var)}


def _body(equation):
    """(the jaxpr of a call, its constants)."""
    body = equation.params["jaxpr"] if "jaxpr" in equation.params else equation.params["call_jaxpr"]
    return getattr(body, "jaxpr", body), getattr(body, "consts", ())


def _is_layout(equation):
    """The same numbers in another order: lengths stay."""
    if len(equation.invars) != 1:
        return False
    before, after = equation.invars[0].aval, equation.outvars[0].aval
    name = equation.primitive.name
    if name == "convert_element_type":
        return jnp.issubdtype(after.dtype, jnp.floating)
    return name in ("transpose", "reshape", "squeeze") or (
        name == "broadcast_in_dim" and math.prod(before.shape) == math.prod(after.shape)
    )


def _is_product(equation):
    if equation.primitive.name != "dot_general":
        return False
    _, (first, second) = equation.params["dimension_numbers"]
    return not first and not second and jnp.issubdtype(equation.outvars[0].aval.dtype, jnp.floating)


def _is_table(equation):
    """Whole rows along the first axis, rows last in the result."""
    if equation.primitive.name != "gather" or equation.params["mode"] not in _MODES:
        return False
    numbers, shape = equation.params["dimension_numbers"], equation.invars[0].aval.shape
    rank = len(equation.outvars[0].aval.shape)
    return (
        tuple(numbers.start_index_map) == tuple(numbers.collapsed_slice_dims) == (0,)
        and not numbers.operand_batching_dims
        and tuple(equation.params["slice_sizes"]) == (1, *shape[1:])
        and tuple(numbers.offset_dims) == tuple(range(rank - len(shape) + 1, rank))
    )


def laid_open(jaxpr, constants, arguments, operands, tokens):
    """Run a jaxpr with something added to what comes out of some of its equations.

    Args:
        operands: {path of an equation: which operand is the parameter}. tokens: {path: zeros like
            the equation's result}: their cotangents are those of the result.

    Returns: (results, {path: what meets the parameter there}).
    """
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments)))
    met = {}

    def read(var):
        return var.val if isinstance(var, Literal) else values[var]

    for number, equation in enumerate(jaxpr.eqns):
        given = [read(var) for var in equation.invars]
        deeper = {path[1:]: k for path, k in operands.items() if path[0] == number}
        if () in deeper:
            results = [_bound(equation, given) + tokens[(number,)]]
            met[(number,)] = given[1 - deeper[()]]
        elif deeper:
            inner = {path[1:]: token for path, token in tokens.items() if path[0] == number}
            results, seen = _called(equation, given, deeper, inner)
            met.update({(number, *path): each for path, each in seen.items()})
        else:
            results = _bound(equation, given)
            results = results if equation.primitive.multiple_results else [results]
        values.update(zip(equation.outvars, results))
    return [read(var) for var in jaxpr.outvars], met


def _called(equation, given, operands, tokens):
    """The body of a call, laid open; what was not to be kept in memory still is not."""
    body, constants = _body(equation)

    def run(given, tokens):
        return laid_open(body, constants, given, operands, tokens)

    if equation.primitive.name in _REMAT:
        run = jax.checkpoint(
            run, prevent_cse=equation.params["prevent_cse"], policy=equation.params["policy"]
        )
    return run(given, tokens)


def _bound(equation, given):
    parameters = equation.primitive.get_bind_params(equation.params)
    # before JAX 0.10: (functions, parameters)
    functions, parameters = parameters if isinstance(parameters, tuple) else ((), parameters)
    with equation.ctx.manager:
        return equation.primitive.bind(*functions, *given, **parameters)
