"""What the numbers of a trade-off curve mean: one Gaussian parameter and what it gives away, and
what an adversary who guesses gains.
"""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import NONNEGATIVE, OPEN_UNIT, RATE, UNIT, check_domain, is_traced
from jaxpriv._types import Answer, Bounds, Numbers
from jaxpriv.tradeoff import attribute, certified, evaluate, inference, lowest, regret
from jaxpriv.tradeoff import slack as slackened
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.hull import symmetrised

_LEAST = 5e-324  # the level that stands below subnormal ones: none is a share of 0


class Meaning:
    """Methods of `jaxpriv.Curve`."""

    experiment: Experiment

    def gdp_mu(self, slack: Numbers = 0.0) -> Answer:
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
            31.62 0.4489
        """
        check_domain("slack", slack, UNIT)
        if not is_traced(slack) and np.all(np.asarray(slack) == 0):
            exact = lowest.smallest_mu(self.experiment)
            return exact if np.ndim(slack) == 0 else exact + xp.zeros_like(slack)
        found = slackened.slack_mu(self.experiment, slack)
        if not is_traced(slack) and np.all(np.asarray(slack) != 0):
            return found
        return xp.where(slack == 0, lowest.smallest_mu(self.experiment), found)

    def gdp_mu_bounds(self, slack: Numbers = 0.0) -> Bounds:
        """(lower, upper) with the smallest mu in between with which f >= G_mu - slack at every
        alpha, in float64 whatever the mode; slack in [0, 1] as in `gdp_mu`.

        Guarantee: both sides, for the parameters exactly as they were given. Without slack upper
        is `gdp_mu()`; lower is the largest mu that the lower bounds of the profile at a few eps,
        or the small levels of steps with Gaussian noise ask for, or `gdp_mu()` less rounding where
        that is exact (Gaussian noise). Both are infinite where anything is told for sure. With
        slack lower is verified at one eps, and upper on cells that cover every eps at which delta
        is not below slack for sure: as narrow as the profile's brackets, to about 3e-8 of itself.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.laplace(1.0).gdp_mu_bounds()
            >>> print(f"{low:.4f} {high:.4f}")
            1.0301 1.0301
            >>> low, high = jaxpriv.worst_case.laplace(1.0).gdp_mu_bounds(slack=1e-3)
            >>> print(f"{low:.5f} {high:.5f}")
            1.02720 1.02720
        """
        check_domain("slack", slack, UNIT)
        if not is_traced(slack) and np.all(np.asarray(slack) == 0) and np.ndim(slack) == 0:
            return certified.certified(lowest.bounds_of_mu, self.experiment, nothing=lambda: 0.0)
        return self._certified(slackened.bounds_of_slack_mu, slack)

    def gdp_regret(self, mu: Numbers) -> Answer:
        """What reporting this mu in place of the curve gives away: the least kappa >= 0 with
        f(alpha + kappa) - kappa <= G_mu(alpha) at every alpha, and the same of f^-1.

        mu: `Float[Array, "..."]` in [0, inf); of use for one that holds, as `gdp_mu` returns it.
        Whoever knows no more than that mu-GDP holds overrates some adversary's errors, of both
        types, by at most kappa each; 0 where G_mu is the curve itself, at most 1/2. An estimate, to
        about 1e-9, with first derivatives; the guarantee is `gdp_regret_bounds`.
        Source: Kaissis et al. 2024 (arXiv:2406.08918); Gomez et al.
        2025 (arXiv:2503.10945), who call it regret; derived in `jaxpriv.tradeoff.regret`.

            >>> import jaxpriv
            >>> curve = jaxpriv.worst_case.laplace(1.0)
            >>> print(f"{curve.gdp_regret(curve.gdp_mu()):.4f}")
            0.0370
        """
        return regret.regret(self.experiment, mu)

    def gdp_regret_bounds(self, mu: Numbers) -> Bounds:
        """(lower, upper) with `gdp_regret(mu)` in between, in float64 whatever the mode.

        Guarantee: both sides; lower is seen at one eps, upper on cells that cover all of them, to
        about 1e-7 of itself where G_mu is not nearly the curve: there upper stays up to 1e-4 too
        high.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.laplace(1.0).gdp_regret_bounds(1.1)
            >>> print(f"{low:.6f} {high:.6f}")
            0.043922 0.043922
        """
        check_domain("mu", mu, NONNEGATIVE)
        return self._certified(regret.bounds_of_regret, mu)

    def reconstruction_success(self, baseline: Numbers) -> Answer:
        """The largest probability with which an adversary who sees the release reconstructs the
        record, infers its attribute or finds whose it is, if without the release it succeeds with
        probability `baseline` at most.

        baseline: `Float[Array, "..."]` in [0, 1]: the success of the best guess from what is known
        beforehand: 1/m for one of m equally likely records, the most likely value's probability for
        an attribute. What counts as success may depend on the record in any way (an error below a
        threshold).

        It is the power at this level. For each record z "the guess succeeds for z" is a test of the
        release with z against that without it; its type I errors have a mean of at most `baseline`
        over z, for without z the release tells nothing of it, and 1 - f is concave and increasing.
        So the direction of this curve matters: its alternative is the record's presence. Equal to
        the baseline where nothing leaks. Source: Kulynych et al. 2025 (arXiv:2507.06969); Hayes et
        al. 2023 (arXiv:2302.07225); derived here.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).reconstruction_success(0.1):.4f}")
            0.3891
        """
        check_domain("baseline", baseline, UNIT)
        return evaluate.power(self.experiment, baseline)

    def reconstruction_success_bounds(self, baseline: Numbers) -> Bounds:
        """(lower, upper) with `reconstruction_success(baseline)` in between, in float64 whatever
        the mode.

        Guarantee: both sides: of the power at the level `baseline`, from `delta_bounds` at three
        eps and the convexity of delta + e^eps baseline in e^eps; as narrow as they are, to about
        1e-9 of itself.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).reconstruction_success_bounds(1e-9)
            >>> print(f"{low:.6e} {high:.6e}")
            2.899299e-07 2.899299e-07
        """
        check_domain("baseline", baseline, UNIT)
        return self._certified(inference.bounds_of_power, baseline)

    def attribute_inference_success(self, baseline: Numbers) -> Answer:
        """The largest probability with which an adversary who knows the rest of the record and sees
        the release infers its attribute, if beforehand no value was likelier than `baseline`.

        baseline: `Float[Array, "..."]` in [0, 1]: 1/k for one of k equally likely values. The curve
        has to hold for one value of the attribute in the place of another: that of replaced
        records (`adjacency="replace_one"`), or of noise over what this attribute alone can move,
        which is often far less. Of a directed curve `symmetric()` counts. A curve of added and
        removed records says less directly how much an attribute is worth: for that one
        `reconstruction_success(baseline)`, the power at the baseline, is the bound, and where both
        curves are known both bounds hold.

        Below 1/2 the root S of S = power(baseline (1 - S)/(1 - baseline)), under (epsilon, 0)-DP
        e^epsilon/(e^epsilon + k - 1); from 1/2 on b + (1 - b) delta(log(b/(1 - b))). Some mechanism
        with this curve lets somebody succeed as often wherever 1/baseline is a whole number, or
        below 2. Equal to the baseline where nothing leaks; what is above it is the advantage. First
        derivatives in the parameters and the baseline. Source: Salem et al. 2023
        (arXiv:2212.10986), whose game it is; Hayes et al. 2023 (arXiv:2302.07225) and Kulynych et
        al. 2025 (arXiv:2507.06969), who bound it by the power at the baseline; derived in
        `jaxpriv.tradeoff.attribute`.

            >>> import jaxpriv
            >>> curve = jaxpriv.worst_case.gaussian(1.0)
            >>> print(f"{curve.attribute_inference_success(0.1):.4f}")
            0.3290
            >>> print(f"{curve.reconstruction_success(0.1):.4f}")
            0.3891
        """
        check_domain("baseline", baseline, UNIT)
        return attribute.attribute_success(symmetrised(self.experiment), baseline)

    def attribute_inference_success_bounds(self, baseline: Numbers) -> Bounds:
        """(lower, upper) with `attribute_inference_success(baseline)` in between, in float64
        whatever the mode.

        Guarantee: both sides, and with upper nobody succeeds more often; from the same bounds of
        the power as `reconstruction_success_bounds`, and of delta from 1/2 on.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).attribute_inference_success_bounds(0.1)
            >>> print(f"{low:.6f} {high:.6f}")
            0.328999 0.328999
        """
        check_domain("baseline", baseline, UNIT)
        return certified.certified(
            attribute.bounds_of_attribute_success, symmetrised(self.experiment),
            certified.as_number(baseline), nothing=_nothing,
        )

    def precision(self, alpha: Numbers, base_rate: Numbers) -> Answer:
        """Of the records that the best test at type I error alpha calls members, the share that are
        (positive predictive value), if a share `base_rate` of all is.

        alpha: `Float[Array, "..."]` in (0, 1]; base_rate: in [0, 1]. No test with this type I error
        does better: base_rate power/(base_rate power + (1 - base_rate) alpha), which grows with the
        power; base_rate itself where nothing leaks.
        Source: Bayes' rule; Jayaraman et al. 2021 (arXiv:2005.10881).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).precision(1e-3, base_rate=0.01):.4f}")
            0.1560
        """
        return inference.precision(self.experiment, alpha, base_rate)

    def precision_bounds(self, alpha: Numbers, base_rate: Numbers) -> Bounds:
        """(lower, upper) with `precision(alpha, base_rate)` in between, in float64 whatever the
        mode.

        Guarantee: both sides, from the same bounds of the power as `reconstruction_success_bounds`.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).precision_bounds(1e-3, 0.01)
            >>> print(f"{low:.6f} {high:.6f}")
            0.155999 0.155999
        """
        check_domain("alpha", alpha, RATE)
        check_domain("base_rate", base_rate, UNIT)
        return self._certified(inference.bounds_of_precision, alpha, base_rate, least=_LEAST)

    def posterior(self, alpha: Numbers, base_rate: Numbers) -> Answer:
        """The probability that a record is a member, after an output as incriminating as only a
        share alpha of those without the record are, if it was `base_rate` before.

        alpha: `Float[Array, "..."]` in (0, 1): the type I error of the test that calls everything
        at least as incriminating a member; base_rate: in [0, 1]. The odds are multiplied by
        e^slope(alpha), the likelihood ratio at the edge of that test's region; those of outputs
        deeper inside by more. Under (epsilon, 0)-DP at most by e^epsilon, at every alpha.
        Source: Bayes' rule; Dong, Roth, Su 2022, Proposition 2.13 (slopes are likelihood ratios).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).posterior(1e-3, base_rate=0.01):.4f}")
            0.1187
        """
        return inference.posterior(self.experiment, alpha, base_rate)

    def posterior_bounds(self, alpha: Numbers, base_rate: Numbers) -> Bounds:
        """(lower, upper) with `posterior(alpha, base_rate)` in between, in float64 whatever the
        mode; where f has a kink at alpha, around one of its slopes there.

        Guarantee: both sides, from secants of `delta_bounds`: as narrow as those of about a
        millionth of epsilon let it be, wider next to alpha = 1; (0, 1) where they tell nothing.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).posterior_bounds(1e-3, 0.01)
            >>> print(f"{low:.4f} {high:.4f}")
            0.1187 0.1187
        """
        check_domain("alpha", alpha, OPEN_UNIT)
        check_domain("base_rate", base_rate, UNIT)
        return self._certified(inference.bounds_of_posterior, alpha, base_rate, least=_LEAST)

    def _certified(self, bounds_of, *values, least=0.0):
        return certified.certified(
            bounds_of, self.experiment, *map(certified.as_number, values), nothing=_nothing,
            least=least,
        )


def _nothing(*values):
    """0 bounds every one of these numbers from below."""
    return sum(value * 0.0 for value in values)
