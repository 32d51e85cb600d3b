"""Adaptive composition: budgets that hold though every step is chosen by what came out before.

Curves that are chosen adaptively do not compose as curves do: tensor products of trade-off
functions along the path that was taken promise too little (Tran et al. 2026, arXiv:2602.06756).
Squares of mu (Gaussian differential privacy) and Renyi divergences of one order do: a `gaussian`
or a `renyi` filter refuses what would exceed its budget, and what was accepted holds to it whenever
the interaction ends, without a word on when. An odometer says at any time what was spent so far.
"""

from jaxpriv.filters.filter import GaussianFilter, RenyiFilter, gaussian, renyi
from jaxpriv.filters.ladder import GaussianOdometer, RenyiOdometer, odometer, renyi_odometer
from jaxpriv.filters.total import Total

__all__ = ["GaussianFilter", "GaussianOdometer", "RenyiFilter", "RenyiOdometer", "Total",
           "gaussian", "odometer", "renyi", "renyi_odometer"]
