"""Curves of mechanisms of which Renyi divergences or zCDP are known.

A mechanism with Renyi divergences of order a of at most r in both directions is
(epsilon, delta)-differentially private with

    log delta = (a - 1) (r - epsilon + log(1 - 1/a)) - log a,

for every a that is known. The curve is that of these points (`jaxpriv.bridges.points`), so dense
that what lies between them matters little.
"""

import numpy as np

from jaxpriv._checks import NONNEGATIVE, Domain
from jaxpriv._types import Numbers
from jaxpriv.bridges import points
from jaxpriv.bridges._lists import lists
from jaxpriv.curve import Curve

_ORDER = Domain(1.0, np.inf, "(1, inf)", 2.0, open_low=True, open_high=True)
_POINTS = 400
_LEAST = np.log(1e-30)  # log of the least delta that is told
_ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)  # of zCDP
_DOUBT = 1e-12  # relative to the terms of log delta


def curve(order: Numbers, divergence: Numbers) -> Curve:
    """The curve of a mechanism whose Renyi divergences are known at some orders.

    Args:
        order: a, `Float[Array, "k"]` in (1, inf).
        divergence: of order a, of both directions at most, `Float[Array, "k"]` in [0, inf).

    Returns: the symmetric `Curve` of the worst mechanism with the points of (epsilon, delta) that
        the divergences lead to, 400 of them for deltas from 1 to 1e-30 and epsilons up to 1000;
        beyond epsilon is infinite. Divergences of one order add up under composition: add them
        before, for a curve that is composed afterwards is that of the points.
    Guarantee: upper ends of all bounds hold for every mechanism with these divergences; it may be
        far better than they tell. Lower ends say nothing of it.
    Raises: ValueError for numbers outside their range, arrays of other shapes and traced values.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12; Mironov 2017 for the divergences.

        >>> import numpy as np
        >>> from jaxpriv.bridges import renyi
        >>> orders = np.arange(2, 64)
        >>> print(f"{renyi.curve(orders, 0.5 * orders).epsilon(1e-5):.3f}")
        4.753
    """
    order, divergence = lists(order=(order, _ORDER), divergence=(divergence, NONNEGATIVE))
    c = order - 1
    last = np.min(divergence + np.log1p(-1 / order) - (_LEAST + np.log(order)) / c)
    # denser where epsilon is small, for there a distance matters more
    epsilon = np.clip(last, 1e-3, points.LARGEST) * np.linspace(0.0, 1.0, _POINTS) ** 1.5
    terms = (c * (divergence - epsilon[:, None]), c * np.log1p(-1 / order), -np.log(order))
    doubt = _DOUBT * sum(map(np.abs, terms))
    log_delta = np.min(sum(terms) + doubt, 1)
    return points.curve(epsilon, np.exp(np.minimum(log_delta, 0.0)))


def zcdp(rho: Numbers) -> Curve:
    """The curve of a mechanism that is rho-zero-concentrated differentially private.

    Args:
        rho: in [0, inf): its Renyi divergence of every order a is at most rho a.

    Returns: the symmetric `Curve`, as `curve` of 2000 orders. rho adds up under composition.
    Guarantee: as of `curve`. Of Gaussian noise, rho = mu^2/2, take `worst_case.gaussian`.
    Raises: ValueError for rho outside its range.
    Source: Bun, Steinke 2016, Definition 1.1; Canonne, Kamath, Steinke 2020, Proposition 12.

        >>> from jaxpriv.bridges import renyi
        >>> print(f"{renyi.zcdp(0.5).epsilon(1e-5):.3f}")
        4.728
    """
    (rho,) = lists(rho=(rho, NONNEGATIVE))
    if rho.size > 1:
        raise ValueError(f"rho has shape {rho.shape}; accepted: one number")
    return curve(_ORDERS, rho * _ORDERS)
