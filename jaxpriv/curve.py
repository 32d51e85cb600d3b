"""The trade-off curve: what every adversary of this library looks like to its user."""

import numpy as np

from jaxpriv import _array as xp
from jaxpriv._checks import (
    ADJACENCIES,
    NONNEGATIVE,
    POSITIVE,
    RATE,
    UNIT,
    as_parameter,
    check_choice,
    check_domain,
    check_number,
    check_whole,
    is_traced,
)
from jaxpriv._pytree import pytree
from jaxpriv._types import Answer, Bounds, Numbers
from jaxpriv.composition.steps import repeated
from jaxpriv.tradeoff import certified, evaluate
from jaxpriv.tradeoff.experiment import Experiment
from jaxpriv.tradeoff.groups import grouped
from jaxpriv.tradeoff.hull import Replaced, Symmetric, symmetrised
from jaxpriv.tradeoff.meaning import Meaning


@pytree
class Curve(Meaning):
    """A trade-off function f: the smallest type II error beta = f(alpha)
    of an adversary at type I error alpha.

    Built by the catalogue (`jaxpriv.worst_case`, `jaxpriv.relaxed`, ...) from a dominating pair:
    null = the record is absent, alternative = it is present. A pytree: parameters may be arrays of
    any broadcastable shape (one curve with array leaves is a batch of curves), and every method
    works under `jit`, `vmap`, `grad`.

    The methods describe this one direction. A mechanism must hold against both: `symmetric()` is
    the curve to quote for it (for Gaussian and Laplace noise against the full adversary the two
    directions coincide).

    Shared by all methods: arguments are `Float[Array, "..."]` and broadcast against the parameters;
    NaN in, NaN out; a concrete argument outside its range raises ValueError, a traced one gives
    NaN. Floating-point estimates, correct to rounding; the guarantees are `epsilon_bounds`,
    `delta_bounds`, and the upper bound that `gdp_mu` returns.

    Of Python numbers and NumPy arrays NumPy computes in float64, without compiling, and float64
    comes back; a JAX array or tracer among parameters or arguments makes it a JAX program,
    of the promoted dtype.

        >>> import jaxpriv
        >>> curve = jaxpriv.relaxed.gaussian(1.0)
        >>> print(f"{curve(0.05):.4f} {curve.power(0.05):.4f}")
        0.8299 0.1701
    """

    experiment: Experiment

    def __call__(self, alpha: Numbers) -> Answer:
        """Type II error beta = f(alpha) of the best test at type I error alpha in [0, 1];
        decreasing and convex.

        Source: Kaissis et al. 2023 (NeurIPS 36), Definition 2; Kaissis et al. 2022
        (arXiv:2210.13028), Theorem 1 (as ROC curve 1 - f).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0)(0.05):.4f}")
            0.7405
        """
        return evaluate.beta(self.experiment, alpha)

    def power(self, alpha: Numbers) -> Answer:
        """Power 1 - f(alpha) (TPR at FPR alpha in [0, 1]), computed on its own,
        so that it is exact where it is tiny.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).power(1e-3):.4f}")
            0.0183
        """
        return evaluate.power(self.experiment, alpha)

    def inverse(self, beta: Numbers) -> Answer:
        """The type I error at which the type II error is beta in [0, 1]:
        the curve of the exchanged hypotheses at beta.

            >>> import jaxpriv
            >>> curve = jaxpriv.relaxed.gaussian(1.0)
            >>> print(f"{curve.inverse(curve(0.05)):.4f}")
            0.0500
        """
        return evaluate.inverse(self.experiment, beta)

    def slope(self, alpha: Numbers) -> Answer:
        """The eps in [-inf, inf] for which a line of slope -e^eps supports f at alpha in [0, 1].

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).slope(0.5):.4f}")
            -0.5000
        """
        return evaluate.slope(self.experiment, alpha)

    def log_delta(self, epsilon: Numbers) -> Answer:
        """log of `delta(epsilon)`, exact far below the smallest float; -inf where delta is 0.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).log_delta(50.0):.2f}")
            -1233.87
        """
        return evaluate.log_delta(self.experiment, epsilon)

    def delta(self, epsilon: Numbers) -> Answer:
        """Privacy profile: the smallest delta for which f supports (epsilon, delta),
        at any real epsilon; at infinity the probability of an infinite loss, 1 - f(0).

        delta = sup_alpha (1 - f(alpha) - e^epsilon alpha), the conjugate of f, from the threshold
        with likelihood ratio e^epsilon and without cancellation. Source: Dong, Roth, Su 2022,
        Proposition 2.13; Kaissis et al. 2022 (arXiv:2210.13028), Section 4.5.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).delta(1.0):.4f}")
            0.1269
        """
        return xp.exp(evaluate.log_delta(self.experiment, epsilon))

    def epsilon(self, delta: Numbers) -> Answer:
        """The smallest epsilon >= 0 with delta(epsilon) <= delta, delta in [0, 1];
        inf at delta = 0 for unbounded losses.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.gaussian(0.5).epsilon(1e-4):.4f}")
            1.0279
        """
        return evaluate.epsilon(self.experiment, delta)

    def advantage(self) -> Answer:
        """max_alpha (power - alpha) in [0, 1]: the membership advantage,
        the total variation distance, delta(0).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).advantage():.4f}")
            0.3829
        """
        return evaluate.advantage(self.experiment)

    def auc(self) -> Answer:
        """Area under the ROC curve power(alpha), in [1/2, 1].

        Closed form for the Gaussian pair. Compositions, by NumPy: 1 - (1 - delta(0))^2/2 -
        1/2 int_0^inf (alpha^2 + alpha_r^2) e^eps d eps, alpha the levels at which lines of slope
        -e^eps touch in both directions, to about 1e-12 (sampled steps, counted outcomes), 1e-9 (on
        lattices) or 1e-6 (there, where losses have atoms). Elsewhere, and in programs,
        Gauss-Legendre on panels of alpha graded to both ends and cut at the curve's kinks, to about
        1e-12 (1e-4 where straight pieces end at levels that are not known in closed form).

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).auc():.4f}")
            0.7602
        """
        return evaluate.auc(self.experiment)

    def reversed(self) -> "Curve":
        """The curve f^-1 of the exchanged hypotheses.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.laplace(1.0).reversed().epsilon(0.0):.4f}")
            1.0000
        """
        return Curve(self.experiment.reversed())

    def symmetric(self) -> "Curve":
        """The convexified symmetrisation min(f, f^-1)**: what holds whichever hypothesis the
        adversary calls the null.

        Its profile is the larger of the two directions' profiles, its curve straight (slope -1)
        around the diagonal.
        Source: Dong, Roth, Su 2022, Appendix E; Kaissis et al. 2023 (NeurIPS 36), Definition 3.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.relaxed.laplace(1.0).symmetric().epsilon(0.0):.4f}")
            1.0000
        """
        found = symmetrised(self.experiment)
        return self if found is self.experiment else Curve(found)

    def subsample(self, rate: Numbers, adjacency: str = "add_remove") -> "Curve":
        """The curve when the record takes part with probability `rate` in (0, 1].

        adjacency: "add_remove": this curve is that of one record added; the result, f_p = p
        f + (1-p)(1 - alpha), is that of one removed under Poisson sampling, and
        `reversed()`/`symmetric()` of it; for a symmetric curve the symmetrisation of both.
        "replace_one": this curve is that of one record in the place of another (twice the
        sensitivity of one added); the result min(f_p, f_p^-1)** holds whichever of both is worse,
        and composes as the one pair that it is, for samples of fixed size without replacement and,
        as a bound that is not attained, for Poisson sampling (of Gaussian noise,
        `jaxpriv.worst_case.subsampled_gaussian` has the pair that is).
        "zero_out": this curve is that of one record in the place of a null record, whose gradient
        is zero; under Poisson sampling the two differ as one added and one removed do.
        Source: Kaissis et al. 2023 (NeurIPS 36), Lemma 9; Dong, Roth, Su 2022, Theorem 4.2; Balle,
        Barthe, Gaboardi 2018, Theorems 2, 9.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(1.0).subsample(0.1).advantage():.4f}")
            0.0383
        """
        check_choice("adjacency", adjacency, ADJACENCIES)
        sampled = self.experiment.subsampled(as_parameter("rate", rate, RATE))
        if adjacency != "replace_one":
            return Curve(sampled)
        return Curve(Replaced(sampled.members if isinstance(sampled, Symmetric) else (sampled,)))

    def group(self, size: int) -> "Curve":
        """The curve of a group: `size` records, a whole number >= 1, come or go together.

        Of Gaussian and Laplace noise in closed form, `size` times the shift; of all others, also of
        black boxes, f_k = 1 - (1-f)^(size times) of `symmetric()`. Of sub-sampled noise the records
        of a group are seldom drawn together, which this does not use:
        `jaxpriv.worst_case.user_level` does. A relaxed adversary's tests say nothing of a
        neighbour's neighbour, but where the noise is added once.

        Guarantee: f_k holds for groups if f does for one record; bounds are bounds of f_k.
        Raises ValueError where the curve is not the full adversary's.
        Source: Dong, Roth, Su 2022, Theorem 2.14.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(0.5).group(3).gdp_mu():.4f}")
            1.5000
            >>> print(f"{jaxpriv.worst_case.randomized_response(0.5).group(3).epsilon(0.0):.4f}")
            1.5000
        """
        check_whole("size", size)
        return Curve(grouped(self.experiment, size))

    def compose(self, n: Numbers) -> "Curve":
        """The curve of n >= 0 equal mechanisms seen together; n may be any real number (bounds:
        of whole ones next to it).

        Gaussian noise in closed form: mu becomes sqrt(n) mu, and the relaxed adversary's
        noncentrality n times its own. Up to 1000 black boxes, or 100 reports of k-ary randomised
        response and unary encoding, by their binomial laws, where n is a number. Sub-sampled
        Gaussian noise by its privacy-loss transform, at a cost that does not depend on n; all other
        curves on a lattice of losses: see `jaxpriv.compose`. Source: Dong, Roth, Su 2022,
        Corollary 3.3; Kaissis et al. 2022 (arXiv:2210.13028), Theorem 2; Kairouz, Oh, Viswanath
        2015, Theorem 3.3.

            >>> import jaxpriv
            >>> print(f"{jaxpriv.worst_case.gaussian(0.5).compose(4).gdp_mu():.4f}")
            1.0000
        """
        return Curve(repeated(self.experiment, as_parameter("n", n, NONNEGATIVE)))

    def delta_bounds(self, epsilon: Numbers, width: float | None = None) -> Bounds:
        """(lower, upper) with the exact delta(epsilon) of these parameters in between.

        Numbers at hand are bounded by NumPy in float64 on the host, whatever JAX's device and mode.
        Inside `jit` the bound is part of the program, in float64, rounded outward in JAX's dtype:
        certified on CPU, not tested on GPU, not covered on TPU, whose float64 has
        the range of float32.

        width: how narrow the bracket should be as one of epsilon (log delta's over its slope), > 0;
        where it stays wider there is a `jaxpriv.WideBracket` warning. Unless it is given a lattice
        grows until log delta is known to 1e-6, and what stays wider does so without a word.

        Guarantee: both sides, of the parameters exactly as they were given; docs/certified.md lists
        every source of error with its bound. Where the curve is in closed form rounding is the only
        one. For a composition of sub-sampled Gaussian steps the bracket adds aliasing, truncated
        frequencies, the quadrature of each transform, and the rounding of the sums
        (`jaxpriv.composition.inversion`); for one of other mechanisms discretisation, truncation of
        tails, aliasing, and the rounding of the Fourier transforms (`jaxpriv.composition.grid`).
        Where the former is wide (few steps at a small rate) it is narrowed by the latter, but not
        inside `jit`. Fractional numbers of steps are bracketed by the whole ones next to them, for
        between two there is no mechanism; Gaussian noise without sub-sampling is one
        at any real number.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).delta_bounds(1.0)
            >>> bool(low < high), bool(high - low < 1e-12)
            (True, True)
        """
        check_domain("epsilon", epsilon, evaluate.REAL)
        epsilon = certified.as_number(epsilon)
        found = certified.bounds_of_delta(self._as_narrow_as(width, epsilon), epsilon)
        if width is not None:
            low, high = certified.as_number(found)
            slope = evaluate.steepness(self.experiment, epsilon)
            with np.errstate(all="ignore"):
                certified.warn_if_wide((np.log(high) - np.log(low)) / slope, width)
        return found

    def log_delta_bounds(self, epsilon: Numbers) -> Bounds:
        """(lower, upper) of log delta(epsilon): `delta_bounds` where delta is no number
        any more, as e^-5000.

        The upper end is -inf where delta is known to be 0, beyond the largest loss.
        Guarantee: as `delta_bounds`.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).log_delta_bounds(100.0)
            >>> print(f"{low:.3f} {high:.3f}")
            -4960.255 -4960.255
        """
        check_domain("epsilon", epsilon, evaluate.REAL)
        return certified.bounds_of_log_delta(self.experiment, certified.as_number(epsilon))

    def epsilon_bounds(self, delta: Numbers, width: float | None = None) -> Bounds:
        """(lower, upper) with the exact epsilon(delta) of these parameters in between,
        as `delta_bounds`.

        width: how narrow the bracket should be, > 0, for concrete numbers; where it stays wider
        there is a `jaxpriv.WideBracket` warning. Unless it is given a lattice grows until log delta
        is known to 1e-6, and what stays wider does so without a word.

        Guarantee: both sides; the upper end is verified, delta_bounds(upper)[1] <= delta, and so is
        the lower. Width about 1e-12 where no lattice is needed.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).epsilon_bounds(1e-5)
            >>> bool(low < high), bool(high - low < 1e-10)
            (True, True)
        """
        check_domain("delta", delta, UNIT)
        delta = certified.as_number(delta)
        found = certified.bounds_of_epsilon(self._as_narrow_as(width, delta), delta)
        if width is not None:
            certified.warn_if_wide(found[1] - found[0], width)
        return found

    def _as_narrow_as(self, width, value):
        """The experiment, whose lattices grow until epsilon's bracket has this width."""
        if width is None:
            return self.experiment
        check_number("width", width, POSITIVE)
        if is_traced((self.experiment, value)):
            raise ValueError(
                "width is heeded of concrete numbers; inside jit a lattice has one size"
            )
        # a search steps out on both sides, by up to twice what a bracket of delta reaches
        return self.experiment.as_narrow_as(width / 4)

    def beta_bounds(self, alpha: Numbers) -> Bounds:
        """(lower, upper) with the exact type II error f(alpha) in between,
        in float64 whatever the mode; alpha in [0, 1].

        Guarantee: both sides; from `delta_bounds` at three eps and the concavity of
        1 - delta - e^eps alpha in e^eps, so that the width is that of delta's bracket plus about
        1e-9. 1 - lower bounds the power (TPR at FPR alpha) of every test.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).beta_bounds(0.05)
            >>> print(f"{low:.6f} {high:.6f}")
            0.740489 0.740489
        """
        check_domain("alpha", alpha, UNIT)
        return certified.bounds_of_beta(self.experiment, certified.as_number(alpha))

    def advantage_bounds(self) -> Bounds:
        """(lower, upper) with the exact advantage in between: `delta_bounds` at epsilon = 0.

            >>> import jaxpriv
            >>> low, high = jaxpriv.worst_case.gaussian(1.0).advantage_bounds()
            >>> bool(low < high), bool(high - low < 1e-12)
            (True, True)
        """
        return self.delta_bounds(0.0)


def experiments_of(caller, curves):
    """Those of the arguments of a function. Raises: ValueError for none, and for anything else."""
    if not curves:
        raise ValueError(f"{caller}() needs at least one curve")
    for curve in curves:
        if not isinstance(curve, Curve):
            raise ValueError(
                f"{caller}() got {type(curve).__name__} for a curve; accepted: curves, one by one"
            )
    return [curve.experiment for curve in curves]
