"""Lists of numbers as other tools write them."""

import numpy as np

from jaxpriv._checks import check_number, is_traced


def lists(**given):
    """Lists of numbers within their domains, all of one length, as float64."""
    if is_traced([value for value, _ in given.values()]):
        raise ValueError(f"{' and '.join(given)} must be numbers, not values of a jit or grad")
    found = {name: np.atleast_1d(np.asarray(value, float)) for name, (value, _) in given.items()}
    shapes = {value.shape for value in found.values()}
    if len(shapes) > 1 or found and (min(shapes) == (0,) or len(min(shapes)) > 1):
        told = ", ".join(f"{name} {value.shape}" for name, value in found.items())
        raise ValueError(f"shapes are {told}; accepted: lists of one length, not empty")
    for name, (_, domain) in given.items():
        check_number(name, found[name], domain)
    return list(found.values())
