"""What is no number is refused by name, wherever a number is asked for,
also where NumPy would read one out of it.
"""

from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxpriv
from jaxpriv import auditing, relaxed, training, worst_case

NO_NUMBERS = ["1", "one", b"1", ["1.0"], ["1", "2"], [1.0, "2"], [[1.0], [None]], None, [None],
              object(), {}, {"a": 1.0}, True, False, [True], np.True_, np.array(["1"]),
              np.array([b"1"]), np.array([True]), np.array([None]), np.array(["1"], object),
              jnp.array(True), 1 + 0j, np.array([1j]), [[1.0], [1.0, 2.0]], 10**400]
NUMBERS = [1, 1.0, np.float32(1), np.int8(1), [1, 2], (1.0, 2), np.ones(2, np.float16),
           jnp.ones(2, jnp.bfloat16), np.ones(2, ml_dtypes.bfloat16), Fraction(1, 2),
           Decimal("0.5"), range(1, 3), np.array([1, 2], object), 2**70]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_number_is_refused(value):
    for make in (worst_case.gaussian, relaxed.gaussian):
        with pytest.raises(
            ValueError, match=r"^mu = (.|\n)* is not a number; accepted range: \[0, inf\)$"
        ):
            make(value)


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: type(value).__name__)
def test_numbers_are_taken(value):
    assert np.all(np.asarray(worst_case.gaussian(value).advantage()) > 0)


@pytest.mark.parametrize(
    ("call", "name"),
    [(lambda v: worst_case.gaussian(1.0).delta(v), "epsilon"),
     (lambda v: worst_case.gaussian(1.0).epsilon(v), "delta"),
     (lambda v: worst_case.gaussian(1.0)(v), "alpha"),
     (lambda v: worst_case.gaussian(1.0).subsample(v), "rate"),
     (lambda v: jaxpriv.membership.sgd_step(v, 10, 5.0), "dim"),
     (lambda v: jaxpriv.target.empirical_mean(v), "score"),
     (lambda v: jaxpriv.report.Mechanism("gaussian", (1.0,), (v,)), "scales"),
     (lambda v: jaxpriv.report.DpSgd(100, v, 1, 1.0), "batch_size"),
     (lambda v: training.Privacy(mu=v), "mu"),
     (lambda v: training.Privacy(advantage=v), "advantage"),
     (lambda v: training.Privacy(mu=1.0, delta=v), "delta"),
     (lambda v: training.Plan(10, 2.0, (v,), 1), "noise_multipliers"),
     (lambda v: auditing.audit([1.0, 2, 3, 4], [0, 1, 0, 1], v), "confidence"),
     (lambda v: auditing.audit([1.0, 2, 3, 4], [0, 1, 0, 1]).epsilon(v), "delta"),
     (lambda v: auditing.audit([1.0, 2, 3, 4], [0, 1, 0, 1]).band(v), "alpha"),
     (lambda v: auditing.one_run([1.0, 2, 3, 4], [0, 1, 0, 1], v), "delta"),
     (lambda v: auditing.tpr_at_fpr([1.0, 2, 3, 4], [0, 1, 0, 1], v), "fpr")],
)
def test_wherever_a_number_is_asked_for(call, name):
    for value in ("0.5", True):
        with pytest.raises(
            ValueError, match=rf"^{name} = \(?{value!r},?\)? is not a number; accepted range: "
        ):
            call(value)
