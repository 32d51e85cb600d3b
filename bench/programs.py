"""What a program costs to compile: the fusions of compiled DP-SGD (symmetric, float64) and the
seconds.

    python bench/programs.py
"""

import argparse
import time

import jax
import jax.numpy as jnp
from timing import line

import jaxpriv

jax.config.update("jax_enable_x64", True)


def dp_sgd(noise, steps=1000):
    return jaxpriv.worst_case.subsampled_gaussian(noise, 0.01, steps).symmetric()


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    ask = {
        "epsilon": lambda noise, delta: dp_sgd(noise).epsilon(delta),
        "power": lambda noise, alpha: dp_sgd(noise).power(alpha),
    }
    ask |= {f"gradient of {name}": jax.grad(function) for name, function in ask.items()}
    # of a number of steps that may be fractional, between the whole ones next to it
    ask["bounds of epsilon"] = lambda noise, delta: dp_sgd(noise).epsilon_bounds(delta)
    ask["those of steps in the program"] = lambda noise, delta: dp_sgd(
        noise, 1000 * noise).epsilon_bounds(delta)
    for name, function in ask.items():
        begun = time.perf_counter()
        lowered = jax.jit(function).lower(jnp.asarray(1.0), jnp.asarray(1e-5))
        traced = time.perf_counter()
        compiled = lowered.compile()
        line(
            program=name,
            fusions=compiled.as_text().count(" fusion("),
            trace_seconds=round(traced - begun, 2),
            compile_seconds=round(time.perf_counter() - traced, 2),
        )


if __name__ == "__main__":
    main()
