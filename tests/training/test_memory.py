"""Microbatches by what compiled programs need."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from jaxpriv import training
from jaxpriv.training import memory

SIZES = [1, 2, 4, 8, 16, 32, 64]


class Programs:
    """Compiled programs that need so many bytes, and which of them were asked for."""

    def __init__(self, bytes_of):
        self.bytes_of, self.asked = bytes_of, []

    def __call__(self, size):
        self.asked.append(size)
        found = SimpleNamespace(temp_size_in_bytes=self.bytes_of(size), output_size_in_bytes=7)
        return SimpleNamespace(memory_analysis=lambda: found)


def check_fits():
    """The largest that does, of programs that grow linearly, by three of them."""
    for budget, want in ((1007 + 64 * 10, 64), (1007 + 63 * 10, 32), (1007 + 16 * 10, 16),
                         (1007 + 10, 1)):
        programs = Programs(lambda size: 1000 + 10 * size)
        assert training.microbatch_that_fits(programs, SIZES[::-1], budget) == want
        assert len(programs.asked) == len(set(programs.asked)) <= 3
    # one that needs more than a line tells is not taken
    found = Programs(lambda size: 5000 if 4 < size < 64 else 10 * size)
    assert training.microbatch_that_fits(found, SIZES, 600) == 4
    assert training.microbatch_that_fits(Programs(lambda size: 10), [5], 17) == 5


def test_fits():
    check_fits()


def test_free_memory(monkeypatch):
    device = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 100, "bytes_in_use": 30})
    assert memory.free_memory(device) == 70
    assert 2**28 < memory.free_memory(SimpleNamespace(memory_stats=lambda: None)) < 2**46
    monkeypatch.setattr(memory, "free_memory", lambda: 100)
    assert training.microbatch_that_fits(Programs(lambda size: 10 * size), SIZES) == 8


@pytest.mark.parametrize(
    ("sizes", "budget", "match"),
    [([], 1, "sizes is empty"), ([0, 1], 1, "a microbatch of sizes = 0"),
     ([1.5], 1, "a microbatch of sizes = 1.5"), ([1], 0, "budget = 0"), ([1], 2.5, "budget = 2.5"),
     ([1, 2], 16, "a microbatch of 1 needs 17 bytes, more than the budget of 16")],
)
def test_errors(sizes, budget, match):
    with pytest.raises(ValueError, match=match):
        training.microbatch_that_fits(Programs(lambda size: 10 * size), sizes, budget)
    with pytest.raises(ValueError, match="does not tell"):
        memory.needed(SimpleNamespace(memory_analysis=lambda: None))


@pytest.mark.parametrize("summed", ["clipped_sum", "ghost_clipped_sum"])
def test_of_real_programs(summed):
    def compiled_for(microbatch):
        def step(w, x):
            return getattr(training, summed)(lambda w, x, key: jnp.sum(jnp.tanh(x @ w)), w, x,
                                             clip_norm=1.0, microbatch=microbatch)

        rows = jax.ShapeDtypeStruct((32, 4, 64), jnp.float32)
        return jax.jit(step).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32), rows).compile()

    most = memory.needed(compiled_for(32))
    found = training.microbatch_that_fits(compiled_for, SIZES[:-1], most // 2 + 2**14)
    assert found in (8, 16)
