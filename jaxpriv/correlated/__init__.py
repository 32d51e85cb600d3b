"""Correlated noise: DP training whose steps' noises partly cancel (matrix factorisation).

The noise of step t is (C^-1 g)_t, of independent normal g: a strategy is the matrix C, and what it
costs in privacy is its sensitivity, by who takes part when; what it gains is a smaller error of
all iterates, which are sums of noisy gradients.

    >>> from jaxpriv import correlated
    >>> once = correlated.error(correlated.Identity(), steps=1000)
    >>> strategy = correlated.banded_square_root(1000)
    >>> print(f"{once:.2f} {correlated.error(strategy, steps=1000):.2f}")
    22.37 3.10
"""

from jaxpriv.correlated.columns import with_unit_columns
from jaxpriv.correlated.optimum import Optimum, optimise
from jaxpriv.correlated.participation import ONCE, CyclicPoisson, MinSeparation
from jaxpriv.correlated.planning import Candidate, Plan, plan
from jaxpriv.correlated.privacy import curve, noise_multiplier
from jaxpriv.correlated.reach import sensitivity, sensitivity_bounds
from jaxpriv.correlated.strategies import (
    BandedInverse,
    BandedToeplitz,
    BufferedToeplitz,
    Dense,
    Identity,
    Recurrence,
    banded_inverse,
    banded_inverse_square_root,
    banded_square_root,
    banded_toeplitz,
    buffered_square_root,
    buffered_toeplitz,
    dense,
)
from jaxpriv.correlated.workloads import PREFIX_SUMS, Workload, error, row_norms, workload

__all__ = ["ONCE", "PREFIX_SUMS", "BandedInverse", "BandedToeplitz", "BufferedToeplitz",
           "Candidate", "CyclicPoisson", "Dense", "Identity", "MinSeparation", "Optimum", "Plan",
           "Recurrence", "Workload",
           "banded_inverse", "banded_inverse_square_root", "banded_square_root",
           "banded_toeplitz", "buffered_square_root", "buffered_toeplitz", "curve", "dense",
           "error", "noise_multiplier", "optimise", "plan", "row_norms", "sensitivity",
           "sensitivity_bounds", "with_unit_columns", "workload"]
