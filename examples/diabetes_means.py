"""Release the per-feature means of scikit-learn's diabetes data with Gaussian noise and
certify the release.

Run it from the repository: python examples/diabetes_means.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

from jaxpriv import random
from jaxpriv.report import certify
from jaxpriv.report.config import mechanism_from, read_toml
from jaxpriv.report.table import render

# What is known about such measurements without looking at the patients:
# the ranges that values are clipped to.
PUBLIC_RANGES = {
    "age": (18, 80),
    "sex": (1, 2),
    "bmi": (15, 45),
    "bp": (60, 140),
    "s1": (90, 310),
    "s2": (40, 250),
    "s3": (20, 100),
    "s4": (2, 10),
    "s5": (3, 6.5),
    "s6": (55, 130),
}


def main():
    _, mechanism, delta = read_toml(Path(__file__).with_suffix(".toml"))
    mechanism = mechanism_from(mechanism)

    records = jnp.asarray(load_diabetes(scaled=False).data)
    low, high = (
        jnp.array(ends, records.dtype) for ends in zip(*PUBLIC_RANGES.values(), strict=True)
    )
    scaled = (jnp.clip(records, low, high) - low) / (high - low) - 0.5
    means = jnp.mean(scaled, axis=0)

    dim = means.size
    sensitivity = dim**0.5 / 2 / len(records)
    if sensitivity > mechanism.sensitivities[0] or dim > mechanism.dim:
        raise ValueError(
            "the configuration promises a smaller sensitivity or dimension than the data has"
        )

    # a real release draws it from the operating system and forgets it
    key = jax.random.key(20261121)
    noisy = means + mechanism.scales[0] * random.normal(key, means.shape)

    table = Table(title="Per-feature means", title_justify="left")
    for heading in ("feature", "mean", "released", "error"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    released = (noisy + 0.5) * (high - low) + low
    exact = (means + 0.5) * (high - low) + low
    for name, mean, value in zip(PUBLIC_RANGES, exact.tolist(), released.tolist(), strict=True):
        table.add_row(name, f"{mean:.2f}", f"{value:.2f}", f"{value - mean:+.2f}")

    console = Console(highlight=False)
    console.print(table)
    console.print(render(certify(mechanism, delta)))


if __name__ == "__main__":
    main()
