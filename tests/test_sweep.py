"""Sweeps of DP-SGD: numbers, values on the command lineand what is taken up again."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxpriv import worst_case
from jaxpriv.report import ranges
from jaxpriv.report.sweep import sweep

ROOT = Path(__file__).parents[1]
NOISES, RATES, STEPS = [0.8, 1.0, 1.5], [0.01, 0.02, 0.01], [1000, 500, 2000]


@pytest.fixture(scope="module")
def rows():
    return list(sweep(NOISES, RATES, STEPS, 1e-5))


@pytest.mark.slow
@pytest.mark.long
def test_numbers_are_those_of_the_curves(rows):
    curves = worst_case.subsampled_gaussian(
        np.array(NOISES), np.array(RATES), np.array(STEPS, float)
    ).symmetric()
    bounds = np.array([[row["epsilon_lower"], row["epsilon_upper"]] for row in rows]).T
    np.testing.assert_allclose(bounds, curves.epsilon_bounds(1e-5), rtol=1e-12)
    np.testing.assert_allclose(
        [row["advantage_upper"] for row in rows], curves.delta_bounds(0.0)[1], rtol=1e-12
    )
    np.testing.assert_allclose([row["gdp_mu"] for row in rows], np.sqrt(STEPS) / NOISES, rtol=1e-12)
    assert [row["noise_multiplier"] for row in rows] == NOISES
    assert [row["sampling_rate"] for row in rows] == RATES
    assert [row["steps"] for row in rows] == STEPS
    assert all(row["delta"] == 1e-5 and "relaxed" not in row for row in rows)


@pytest.mark.slow
@pytest.mark.long
def test_relaxed_stands_beside_the_worst_case(rows):
    both = list(sweep(NOISES, RATES, STEPS, 1e-5, relaxed_dim=2))
    for row, alone in zip(both, rows, strict=True):
        weak = row.pop("relaxed")
        assert row == pytest.approx(alone, rel=1e-12)
        assert weak["dim"] == 2
        assert weak["epsilon_upper"] < row["epsilon_upper"]


def test_values():
    assert ranges.values("noise_multiplier", "0.5") == [0.5]
    assert ranges.values("noise_multiplier", "1,2,1e1") == [1.0, 2.0, 10.0]
    assert ranges.values("noise_multiplier", "1:2:5") == [1.0, 1.25, 1.5, 1.75, 2.0]
    np.testing.assert_allclose(
        ranges.values("noise_multiplier", "1:100:3", log=True), [1, 10, 100], rtol=1e-14
    )
    assert ranges.values("steps", "1:10:4", whole=True) == [1, 4, 7, 10]
    assert ranges.values("steps", "1:10:3", log=True, whole=True) == [1, 3, 10]
    assert all(isinstance(value, int) for value in ranges.values("steps", "1e3,2000", whole=True))


@pytest.mark.parametrize(
    "text", ["", "one", "1,", "1:2", "1:2:3:4", "1:2:0", "1:2:1.5", "0:2:3", "nan", "1,inf", "2.5"]
)
def test_bad_values(text):
    with pytest.raises(ValueError, match="^steps = "):
        ranges.values("steps", text, log=True, whole=True)


def test_configurations_are_all_combinations_once():
    got = ranges.configurations(
        {"noise_multiplier": "1,2", "sampling_rate": "0.1", "steps": "10,20,10"}, False
    )
    assert got == [(1.0, 0.1, 10), (1.0, 0.1, 20), (2.0, 0.1, 10), (2.0, 0.1, 20)]
    got = ranges.configurations(
        {"noise_multiplier": "1", "dataset_size": "1000", "batch_size": "10,20", "epochs": "1.1"},
        False,
    )
    assert got == [(1.0, 0.01, 110), (1.0, 0.02, 55)]


def line(noise, steps=10, delta=1e-5, **more):
    return (
        json.dumps({"noise_multiplier": noise, "sampling_rate": 0.1, "steps": steps, "delta": delta,
                    **more})
        + "\n"
    )


def test_take_up(tmp_path):
    """Whole lines of the same question count; the cut one is removed,
    so that the next line starts where it did.
    """
    path = tmp_path / "sweep.jsonl"
    assert ranges.take_up(path, 1e-5, None) == set()
    whole = line(1.0) + line(2.0, delta=1e-6) + line(3.0, relaxed={"dim": 4})
    path.write_text(whole + line(4.0)[:-1])
    assert ranges.take_up(path, 1e-5, 4) == {(3.0, 0.1, 10)}
    assert path.read_text() == whole
    assert ranges.take_up(path, 1e-5, None) == {(1.0, 0.1, 10), (3.0, 0.1, 10)}
    assert path.read_text() == whole


@pytest.mark.parametrize(
    "text", ["something\n", "[1]\n", "{}\n", "3\n", '{"noise_multiplier": 1}\n']
)
def test_a_file_of_something_else_is_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(line(1.0) + text + "rest")
    with pytest.raises(ValueError, match="line 2 is not of a sweep"):
        ranges.take_up(path, 1e-5, None)
    assert path.read_text() == line(1.0) + text + "rest"
