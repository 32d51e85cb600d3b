"""The checks of batches that are cut, of replaced and of zeroed-out records notice slips."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from jaxpriv._derived import reciprocal
from jaxpriv.catalogue import sampled
from jaxpriv.composition.sampled_replaced import ReplacedGaussianTransform
from jaxpriv.composition.sampled_told import CutGaussianTransform
from jaxpriv.stats import _binomial
from jaxpriv.tradeoff import cut_batches
from jaxpriv.tradeoff.cut_batches import CutExchanged, CutGaussian, CutReplaced
from jaxpriv.tradeoff.replaced_gaussian import ReplacedGaussian
from tests.accounting import test_batches_cut, test_replaced, test_zero_out
from tests.slips import check_is_red
from tests.stats import test_binomial


class Slip(NamedTuple):
    """What is put in the place of an attribute, made from the true one; the check to turn red."""

    where: Any
    attribute: str
    wrong: Any
    check: Any


def check_one_cut():
    test_batches_cut.test_one_step(1.0, 0.3, 4, 2)


def check_many_cut():
    test_batches_cut.check_against_dp_accounting(1.0, 0.01, 9999, 120, 1000)


def check_one_replaced():
    test_replaced.test_one_step(1.0, 0.5)


def check_two_replaced():
    test_replaced.test_two_steps_by_quadrature(1.0, 0.5, 0.8)


def check_many_replaced():
    test_replaced.check_against_dp_accounting(1.0, 0.01, 500)


_LESS = np.array([0.0, 0.7])


def more_others(true):
    """One record too many, as if the one in question were among the others."""
    return classmethod(lambda cls, mu, rate, others, largest: true(mu, rate, others + 1, largest))


def like_an_added_one(true):
    """The loss of a record added, in both directions."""
    return lambda self, t: true(self, t) / 2


SLIPS = {
    "a cut batch draws like a whole one": Slip(
        cut_batches, "_kept", lambda true: lambda rate, *sizes: rate, check_one_cut),
    "kept out of the others": Slip(
        cut_batches, "_kept",
        lambda true: lambda rate, n, largest: true(rate, n, largest) * (n + 1) / n, check_one_cut),
    "cut from one more on": Slip(
        cut_batches, "_log_cut", lambda true: lambda rate, n, largest: true(rate, n, largest + 1),
        check_one_cut),
    "the record among the others": Slip(CutGaussian, "of", more_others, check_one_cut),
    "one norm in a cut batch": Slip(
        CutGaussian, "told",
        lambda true: lambda self: true(CutGaussian(self.mu / 2, self.rate, *_rest(self))),
        check_one_cut),
    "half the tail": Slip(
        _binomial, "log_density", lambda true: lambda *a: true(*a) - 1e-3,
        test_binomial.test_tails),
    "cut batches halved": Slip(
        CutGaussianTransform, "log_weight",
        lambda true: property(lambda self: true.fget(self) - _LESS.reshape(
            (2,) + (1,) * (true.fget(self).ndim - 1))), check_many_cut),
    "one norm in all steps": Slip(
        CutGaussianTransform, "ways",
        lambda true: property(lambda self: [true.fget(self)[0]] * 2), check_many_cut),
    "half the loss": Slip(ReplacedGaussian, "log_ratio", like_an_added_one, check_one_replaced),
    "law of the null": Slip(
        ReplacedGaussianTransform, "log_weight",
        lambda true: lambda self, x: true(self, -x), test_replaced.test_compositions),
    "a loss of one side": Slip(
        ReplacedGaussianTransform, "loss",
        lambda true: lambda self, x: self.added.loss(x), test_replaced.test_compositions),
    "a larger noise in both losses": Slip(
        ReplacedGaussianTransform, "added",
        lambda true: property(lambda self: true.fget(replace(self, mu=0.98 * self.mu))),
        check_many_replaced),
    "mu of small levels": Slip(
        ReplacedGaussian, "gaussian_mu", lambda true: lambda self: self.mu,
        test_replaced.test_mu_is_an_upper_bound),
    "two steps of half the noise": Slip(
        sampled, "reciprocal", lambda true: lambda noise: 0.9 * reciprocal(noise),
        check_two_replaced),
    "a null record takes no place": Slip(
        sampled, "both_norms", lambda true: reciprocal,
        test_zero_out.test_samples_of_fixed_size),
    "whole batches for all replaced": Slip(
        CutExchanged, "told",
        lambda true: lambda self: true(CutReplaced(self.mu, self.rate, self.rate,
                                                   *_rest(self)[1:])),
        test_batches_cut.test_sizes),
}


def _rest(pair):
    return pair.kept, pair.log_whole, pair.log_cut, pair.doubt


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    slip = SLIPS[name]
    true = slip.where.__dict__[slip.attribute]
    if isinstance(true, classmethod):
        true = getattr(slip.where, slip.attribute)
    check_is_red(monkeypatch, slip.where, slip.attribute, slip.wrong(true), slip.check)
