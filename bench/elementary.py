"""How far elementary functions in float64 are off, in ulp: NumPy's and XLA's on each device there
is, against 80-bit arithmetic. docs/certified.md asks for them.

    python bench/elementary.py [--size 2000000]

An ulp is 2^-52 of the value; so is the unit of docs/certified.md. XLA's fused multiplications and
what it does to numbers below the smallest normal one are told beside them.
"""

import argparse

import numpy as np
from timing import line

# name: (80-bit function, where arguments lie: uniformly between two numbers or in their logarithms)
FUNCTIONS = {
    "exp": (np.exp, (-700.0, 700.0), False),
    "expm1": (np.expm1, (-30.0, 1.0), False),
    "expm1, small": (np.expm1, (1e-12, 0.5), True),
    "log": (np.log, (1e-300, 1e300), True),
    "log near 1": (np.log, (0.5, 2.0), False),
    "log1p": (np.log1p, (-0.3, 10.0), False),
    "log1p, small": (np.log1p, (1e-12, 0.5), True),
    "log1p near -0.4": (np.log1p, (-0.6, -0.3), False),
    "sin": (np.sin, (-10.0, 10.0), False),
    "cos": (np.cos, (-10.0, 10.0), False),
    "sqrt": (np.sqrt, (1e-300, 1e300), True),
    "tanh": (np.tanh, (-10.0, 10.0), False),
    "sinh": (np.sinh, (-10.0, 10.0), False),
    "cosh": (np.cosh, (-10.0, 10.0), False),
    "arctan": (np.arctan, (-10.0, 10.0), False),
}


def arguments(where, logarithmic, size):
    random = np.random.default_rng(0)
    low, high = np.log(where) if logarithmic else where
    drawn = random.uniform(low, high, size)
    return np.exp(drawn) if logarithmic else drawn


def error(found, true):
    """The largest, in ulp of the value; next to the zeros of sin and cos, of 1e-3."""
    unit = np.maximum(np.abs(true), 1e-3 * (np.abs(true).max() <= 1)) * 2.0**-52
    return float(np.max(np.abs(found.astype(np.longdouble) - true) / unit))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2_000_000)
    size = parser.parse_args().size

    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    devices = {str(d): d for d in (jax.devices()[0], jax.devices("cpu")[0])}
    for name, (exact, where, logarithmic) in FUNCTIONS.items():
        x = arguments(where, logarithmic, size)
        true = exact(x.astype(np.longdouble))
        row = {"NumPy": round(error(exact(x), true), 2)}
        for device_name, device in devices.items():
            xla = jax.jit(getattr(jnp, exact.__name__))
            found = np.asarray(xla(jax.device_put(x, device)))
            row[device_name] = round(error(found, true), 2)
        line(function=name, **row)
    a, b = 1.0 + 2.0**-30, 1.0 - 2.0**-30  # a b = 1 - 2^-60: a fused a b - 1 sees it
    tiny = 2.0**-1060
    for name, device in devices.items():
        left, right, small = jax.device_put((a, b, tiny), device)
        line(
            device=name,
            fuses_multiplications=bool(jax.jit(lambda x, y: x * y - 1.0)(left, right) != 0),
            keeps_subnormal_numbers=bool(jax.jit(lambda x: x * 0.5)(small) == tiny / 2),
        )


if __name__ == "__main__":
    main()
