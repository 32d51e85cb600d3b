"""What the numbers of a trade-off curve mean: one Gaussian parameter and what it gives away, and
what an adversary who guesses gains.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import UNIT, check_domain, is_traced
from jaxpriv.tradeoff import certified, lowest, slack as slackened
from jaxpriv.tradeoff.experiment import Experiment


class Meaning:
    """Methods of `jaxpriv.Curve`."""

    experiment: Experiment

    def gdp_mu(self, slack=0.0):
        """The smallest mu >= 0 whose Gaussian curve G_mu lies below f, but for `slack` of the type
        II error: f >= G_mu - slack at every alpha. Without slack rounded upwards.

        slack: `Float[Array, "..."]` in [0, 1], a probability as delta is one. delta(eps) is at most
        that of G_mu plus slack, at every real eps: mu and slack hold for all epsilon at once,
        together. The smallest errors alone decide mu without slack (sqrt(steps)/noise multiplier
        for DP-SGD, at any sampling rate); what happens with probability 1e-6 does not decide it
        with a slack of 1e-6. A mu with a slack is no mu of mu-GDP: it does not compose by squares
        (`jaxpriv.compose` the curves), and `jaxpriv.filters` do not take it.

        Of a directed curve, its own levels count: for both directions take `symmetric()`. Without
        slack G_mu, which is symmetric, lies below f^-1 where it lies below f.

        Guarantee: without slack an upper bound (mu-GDP holds): exact for every curve from Gaussian
        noise, where it is the limit alpha -> 0, in which the relaxed adversary catches up with the
        full one; for losses that are bounded (Laplace) a certified search, tight to about 1e-9; for
        compositions with such steps the root of the sum of the squares of all steps' mu, which is
        not the smallest. With slack an estimate, to about 1e-9 where the profile is smooth, with
        first derivatives in the parameters and in slack; the guarantee is `gdp_mu_bounds`. inf
        where more than slack is told for sure. Source: Dong, Roth, Su 2022, Definition 2.6,
        Corollary 3.3, Proposition 2.13; derived in `jaxpriv.tradeoff.slack`.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.gaussian(0.5, dim=30).gdp_mu():.4f}")
            0.5000
            >>> sgd = jaxpriv.worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()
            >>> print(f"{sgd.gdp_mu():.2f} {sgd.gdp_mu(slack=1e-5):.4f}")
            31.62 0.4951
        """
        check_domain("slack", slack, UNIT)
        if not is_traced(slack) and np.all(np.asarray(slack) == 0):
            exact = lowest.smallest_mu(self.experiment)
            return exact if np.ndim(slack) == 0 else exact + xp.zeros_like(slack)
        found = slackened.slack_mu(self.experiment, slack)
        if not is_traced(slack) and np.all(np.asarray(slack) != 0):
            return found
        return xp.where(slack == 0, lowest.smallest_mu(self.experiment), found)

    def gdp_mu_bounds(self, slack=0.0):
        """(lower, upper) with the smallest mu in between with which f >= G_mu - slack at every
        alpha, in float64 whatever the mode; slack in [0, 1] as in `gdp_mu`.

        Guarantee: both sides, for the parameters exactly as they were given. Without slack upper
        is `gdp_mu()`; lower is the largest mu that the lower bounds of the profile at a few eps ask
        for, or `gdp_mu()` less rounding where that is exact (Gaussian noise). With slack lower is
        verified at one eps, and upper on cells that cover every eps at which delta is not below
        slack for sure: as narrow as the profile's brackets, to about 3e-8 of itself.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.laplace(1.0).gdp_mu_bounds()
            >>> print(f"{low:.4f} {high:.4f}")
            1.0301 1.0301
            >>> low, high = jaxpriv.worst_case.laplace(1.0).gdp_mu_bounds(slack=1e-3)
            >>> print(f"{low:.5f} {high:.5f}")
            1.02605 1.02605
        """
        check_domain("slack", slack, UNIT)
        if not is_traced(slack) and np.all(np.asarray(slack) == 0) and np.ndim(slack) == 0:
            return certified.certified(lowest.bounds_of_mu, self.experiment, nothing=lambda: 0.0)
        return certified.certified(
            slackened.bounds_of_slack_mu,
            self.experiment,
            certified.as_number(slack),
            nothing=lambda given: xp.where(xp.isnan(given), xp.nan, 0.0),
        )
