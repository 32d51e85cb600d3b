"""Groups of arrays, each clipped to its share, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import training
from jaxpriv.training.groups import Groups
from tests.slips import check_is_red
from tests.training.test_clipping import SIZE, by_loop, flat, loss, problem

PARAMETERS, EXAMPLES = problem()
WIDE = {"body": PARAMETERS, "head": {"scale": jnp.ones(3)}}
SHARES = {"body": 0.8, "head": 0.6}


def group_of(path):
    return "head" if "head" in path else "body"


def scaled_loss(parameters, example, key):
    inner = {**parameters["body"], "w": parameters["body"]["w"] * parameters["head"]["scale"]}
    return loss(inner, example, key)


def check_groups():
    found = training.clipped_sum(scaled_loss, WIDE, EXAMPLES, clip_norm=0.3,
                                 per_layer=Groups(group_of, SHARES))
    gradient_of = jax.jit(lambda one: jax.grad(scaled_loss)(WIDE, one, None))
    expected = 0.0
    for i in range(SIZE):
        gradient = gradient_of(jax.tree.map(lambda leaf, i=i: leaf[i], EXAMPLES))
        parts = [flat(gradient[name]) for name in ("body", "head")]
        parts = [part * min(1, limit / np.linalg.norm(part))
                 for part, limit in zip(parts, (0.24, 0.18))]
        expected = expected + np.concatenate(parts)
    np.testing.assert_allclose(flat(found.total), expected, rtol=3e-5, atol=1e-6)


@pytest.mark.slow
def test_groups():
    check_groups()


def check_sensitivity():
    """One record, alone in its batch: its share in every group, the norm at most in all."""
    for groups in (Groups(group_of), Groups(group_of, SHARES), Groups(lambda path: path),
                   Groups(lambda path: "", {"": 1.0})):
        total_of = jax.jit(lambda one, groups=groups: training.clipped_sum(
            scaled_loss, WIDE, one, clip_norm=1e-3, per_layer=groups).total)
        for i in range(SIZE):
            one = jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], EXAMPLES)
            assert 0.5e-3 < np.linalg.norm(flat(total_of(one))) <= 1e-3


def test_sensitivity():
    check_sensitivity()


@pytest.mark.parametrize(("groups", "per_layer"), [(Groups(lambda path: path), True),
                                                   (Groups(lambda path: "all"), False)])
def test_layers_and_all_are_groups(groups, per_layer):
    found = [training.clipped_sum(loss, PARAMETERS, EXAMPLES, clip_norm=0.3, per_layer=way).total
             for way in (groups, per_layer)]
    np.testing.assert_array_equal(flat(found[0]), flat(found[1]))
    expected = by_loop(PARAMETERS, EXAMPLES, 0.3, per_layer=per_layer)
    np.testing.assert_allclose(flat(found[0]), expected, rtol=3e-5, atol=1e-6)


def test_an_infinite_entry_takes_every_group_with_it():
    broken = {**EXAMPLES, "x": EXAMPLES["x"].at[2, 1].set(jnp.nan)}
    found = training.clipped_sum(scaled_loss, WIDE, broken, clip_norm=0.3,
                                 per_layer=Groups(group_of, SHARES))
    others = training.clipped_sum(scaled_loss, WIDE, EXAMPLES, clip_norm=0.3,
                                  mask=np.arange(SIZE) != 2, per_layer=Groups(group_of, SHARES))
    assert found.non_finite == 1
    np.testing.assert_allclose(flat(found.total), flat(others.total), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "match"),
    [(lambda: Groups("head"), "of = 'head'"), (lambda: Groups(group_of, {"a": 0.0}), r"\['a'\]"),
     (lambda: Groups(group_of, {"a": np.nan}), "nan"),
     (lambda: Groups(group_of, {"a": 0.8, "b": 0.7}), "add up to 1.13"),
     (lambda: Groups(group_of, {"body": 0.5}).limits(WIDE), "one share for each"),
     (lambda: Groups(group_of, {"body": 0.5, "head": 0.5, "c": 0.5}).limits(WIDE),
      "one share for each"),
     (lambda: training.clipped_sum(loss, PARAMETERS, EXAMPLES, clip_norm=1.0, per_layer="head"),
      "per_layer = 'head'")],
)
def test_errors(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.slow
def test_slips_are_seen(monkeypatch):
    def whole(self, parameters, true=Groups.limits):
        groups, shares = true(self, parameters)
        return groups, [1.0] * len(shares)

    check_is_red(monkeypatch, Groups, "limits", whole, check_sensitivity)
    check_is_red(monkeypatch, Groups, "limits", whole, check_groups)
