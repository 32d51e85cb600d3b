"""Mechanisms with finitely many outcomes by their parameters, which `Discrete` spells out."""

from abc import abstractmethod

import jax
import numpy as np

from jaxpriv import _array as xp
from jaxpriv._derived import resolved
from jaxpriv._pytree import pytree
from jaxpriv.tradeoff.experiment import Experiment


class Outcomes(Experiment):
    """A mechanism with finitely many outcomes by its parameters."""

    finite = True

    @abstractmethod
    def spelled(self, shape, dtype):
        """As `Discrete`, in the dtype asked for."""

    def aligned(self, shape, dtype):
        return self.spelled(shape, dtype)

    def _discrete(self):
        return self.spelled(self.batch_shape(), xp.result_type(*jax.tree.leaves(self)))

    def errors(self, alpha, reverse):
        return self.spelled(alpha.shape, alpha.dtype).errors(alpha, reverse)

    def slope(self, alpha, reverse):
        return self.spelled(alpha.shape, alpha.dtype).slope(alpha, reverse)

    def touch(self, eps, reverse):
        return self.spelled(eps.shape, eps.dtype).touch(eps, reverse)

    def log_delta(self, eps, reverse):
        return self.spelled(eps.shape, eps.dtype).log_delta(eps, reverse)

    def bracket(self, low, high, reverse):
        return self.spelled(low.shape, low.dtype).bracket(low, high, reverse)

    def solve_epsilon(self, log_delta, reverse):
        return self.spelled(log_delta.shape, log_delta.dtype).solve_epsilon(log_delta, reverse)

    def loss_bound(self, reverse):
        return self._discrete().loss_bound(reverse)

    def finite_bound(self, reverse):
        return self._discrete().finite_bound(reverse)

    def gaussian_mu(self):
        return self._discrete().gaussian_mu()

    def least_gaussian_mu(self):
        return self._discrete().least_gaussian_mu()

    def beta_bracket(self, alpha):
        return self.spelled(alpha.shape, alpha.dtype).beta_bracket(alpha)

    def log_told(self, reverse):
        return self._discrete().log_told(reverse)

    def last_loss(self):
        return self._discrete().last_loss()

    def atoms(self, reverse):
        return self._discrete().atoms(reverse)

    def listed(self, reverse):
        return self.spelled((), np.float64).listed(reverse)

    def kinks(self, reverse):
        return self._discrete().kinks(reverse)

    def reversed(self):
        return Exchanged(self)

    def subsampled(self, rate):
        return Sampled(self, rate)


@pytree
class Sampled(Outcomes):
    """The record takes part with probability `rate`."""

    base: Outcomes
    rate: jax.Array

    def participation(self):
        return self.rate * self.base.participation()

    def spelled(self, shape, dtype):
        rate = xp.asarray(resolved(self.rate, dtype), dtype)
        return self.base.spelled(shape, dtype).subsampled(xp.broadcast_to(rate, shape))


@pytree
class Exchanged(Outcomes):
    """The hypotheses exchanged."""

    base: Outcomes

    def participation(self):
        return self.base.participation()

    def spelled(self, shape, dtype):
        return self.base.spelled(shape, dtype).reversed()

    def reversed(self):
        return self.base
