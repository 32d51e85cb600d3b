"""The types that public functions are annotated with: for whoever reads and checks a program.
What is accepted at run time is decided by `jaxpriv._checks`.
"""

import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

FilePath = str | os.PathLike[str]
# tracers are `jax.Array`s
Numbers = jax.Array | np.ndarray | np.generic | float | Sequence[float] | Sequence[Sequence[float]]
# NumPy's or JAX's as the input is, and for single numbers NumPy's float64, which answers to most
# of what an array answers to: Any keeps users from having to say which it is
Answer = jax.Array | np.ndarray | Any
Bounds = tuple[Answer, Answer]
