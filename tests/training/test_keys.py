"""Keys of a run: fresh ones each time, kept bit by bit, those of a seed marked."""

import jax
import numpy as np
import pytest

from jaxpriv.training.keys import fresh_keys, read_keys, write_keys


def numbers(keys):
    return [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys[:3]]


def test_fresh():
    """No number twice, in one run or between runs."""
    seen = [pair for _ in range(50) for pair in numbers(fresh_keys())]
    assert len(set(seen)) == 150
    bits = np.unpackbits(np.array(seen, np.uint32).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_seeded():
    one, other = fresh_keys(seed=1), fresh_keys(seed=1)
    assert numbers(one) == numbers(other)
    assert one.secret == other.secret
    assert not one.private
    assert not set(numbers(one)) & set(numbers(fresh_keys(seed=2)))
    assert len(set(numbers(one))) == 3


@pytest.mark.parametrize("seed", [None, 3])
def test_kept(tmp_path, seed):
    keys = fresh_keys(seed)
    write_keys(tmp_path / "keys.json", keys)
    again = read_keys(tmp_path / "keys.json")
    assert numbers(again) == numbers(keys)
    assert (again.secret, again.private) == (keys.secret, seed is None)
    with pytest.raises(FileExistsError):
        write_keys(tmp_path / "keys.json", keys)


def test_fingerprint():
    """It depends on every bit, on shapes, on names, and on the secret."""
    keys, data = fresh_keys(seed=0), {"x": np.arange(6.0).reshape(2, 3), "y": np.arange(2)}
    mark = keys.fingerprint(data)
    assert mark == keys.fingerprint({"x": data["x"].copy(), "y": data["y"]})
    others = [{**data, "x": data["x"].reshape(3, 2)}, {**data, "x": data["x"].astype(np.float32)},
              {"x": data["x"], "z": data["y"]}, {**data, "y": np.array([0, 2])},
              [data["x"], data["y"]]]
    assert len({mark, fresh_keys(seed=1).fingerprint(data), *map(keys.fingerprint, others)}) == 7
