"""Opacus: an accountant for its registry, known there as "jaxpriv" once this module is imported."""

from collections import Counter

from opacus.accountants import IAccountant, register_accountant

import jaxpriv
from jaxpriv import worst_case
from jaxpriv._checks import RATE, as_parameter, check_whole


def curve(history):
    """The curve of the steps that an accountant of Opacus has seen.

    Args:
        history: of (noise multiplier in [0, inf), sampling rate in (0, 1], steps 0, 1, ...), as
            `accountant.history` of any of theirs. Equal pairs count together, wherever they stand.

    Returns: a symmetric `Curve`: a record added and one removed are covered.
    Guarantee: all bounds, for Poisson sampling (`poisson_sampling=True`, their default), as
        `worst_case.subsampled_gaussian`; noise that changes is composed, not averaged. With
        `poisson_sampling=False` batches are shuffled, and neither their accountants' numbers nor
        these hold: `worst_case.shuffled_gaussian` says what is known then.
    Raises: ValueError for numbers outside their range.

        >>> from jaxpriv.bridges import opacus
        >>> print(f"{opacus.curve([(1.0, 0.01, 500), (2.0, 0.01, 500)]).epsilon(1e-5):.4f}")
        1.3986
    """
    counts: Counter = Counter()
    for noise, rate, steps in history:
        check_whole("steps", steps, least=0)
        counts[float(noise), float(rate)] += steps
    curves = [_steps(noise, rate, steps) for (noise, rate), steps in counts.items() if steps]
    return (jaxpriv.compose(*curves) if curves else worst_case.gaussian(0.0)).symmetric()


def _steps(noise, rate, steps):
    if noise == 0:  # who takes part is told
        as_parameter("sampling_rate", rate, RATE)
        return worst_case.approximate_dp(0.0, rate).compose(steps)
    return worst_case.subsampled_gaussian(noise, rate, steps)


class Accountant(IAccountant):
    """An accountant of Opacus whose epsilon is a certified upper bound: `PrivacyEngine(
    accountant="jaxpriv")` after `import jaxpriv.bridges.opacus`, and all else as it is.

    `curve()` is the curve of the training so far. Checkpoints (`state_dict`) are theirs, by the
    name "jaxpriv"; `history` has their format and may be taken over from another accountant.
    Guarantee and errors: as `curve` of this module.

        >>> import jaxpriv.bridges.opacus, opacus
        >>> engine = opacus.PrivacyEngine(accountant="jaxpriv")
        >>> for _ in range(100):  # what the optimiser's hook does
        ...     engine.accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> print(f"{engine.get_epsilon(delta=1e-5):.4f} {len(engine.accountant)}")
        0.7180 100
    """

    def __init__(self):
        super().__init__()

    def step(self, *, noise_multiplier, sample_rate):
        steps = 0
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            steps = self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, steps + 1))

    def curve(self):
        """The symmetric `Curve` of all steps so far."""
        return curve(self.history)

    def get_epsilon(self, delta, **kwargs):
        """The upper end of `epsilon_bounds(delta)` of `curve()`; 0 before the first step.

        Settings of their accountants (`eps_error`, `delta_error`, `alphas`) are accepted for their
        callers' sake: the answer is closer than any of them asks for.
        """
        del kwargs
        return float(self.curve().epsilon_bounds(delta)[1])

    def __len__(self):
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls):
        return "jaxpriv"


# force: a module that is loaded again is no error
register_accountant(Accountant.mechanism(), Accountant, force=True)
