"""Sweeps of DP-SGD: numbers, values on the command lineand what is taken up again."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxpriv import cli, worst_case
from jaxpriv.report import ranges, sweep_plot
from jaxpriv.report import sweep as sweeps
from jaxpriv.report.grid import combinations
from jaxpriv.report.sweep import sweep
from tests.slips import check_is_red

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


def test_too_many(capsys):
    for noises, rates, told in (("1:2:1000000000", ".1", "more than 1,000,000 values"),
                                ("1:2:100000", ".01:.1:1000", "100,000,000 configurations")):
        given = ["sweep", "--noise-multiplier", noises, "--sampling-rate", rates, "--steps", "1"]
        assert cli.main(given) == 2
        assert told in capsys.readouterr().err


def test_configurations_are_all_combinations_once(capsys):
    assert cli.main(["sweep", "--noise-multiplier", "1,2", "--sampling-rate", "0.1",
                     "--steps", "10,20,10"]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    got = [(row["noise_multiplier"], row["sampling_rate"], row["steps"]) for row in rows]
    assert got == [(1.0, 0.1, 10), (1.0, 0.1, 20), (2.0, 0.1, 10), (2.0, 0.1, 20)]
    axes, got = ranges.combined(
        {"noise_multiplier": "1", "dataset_size": "1000", "batch_size": "10,20", "epochs": "1.1"},
        False,
    )
    assert axes == {"batch_size": [10.0, 20.0]}
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
    assert ranges.take_up(path, ranges.dp_sgd_key(1e-5, None)) == {}
    whole = line(1.0) + line(2.0, delta=1e-6) + line(3.0, relaxed={"dim": 4})
    path.write_text(whole + line(4.0)[:-1])
    assert set(ranges.take_up(path, ranges.dp_sgd_key(1e-5, 4))) == {(3.0, 0.1, 10)}
    assert path.read_text() == whole
    done = ranges.take_up(path, ranges.dp_sgd_key(1e-5, None))
    assert set(done) == {(1.0, 0.1, 10), (3.0, 0.1, 10)}
    assert path.read_text() == whole


@pytest.mark.parametrize(
    "text", ["something\n", "[1]\n", "{}\n", "3\n", '{"noise_multiplier": 1}\n']
)
def test_a_file_of_something_else_is_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(line(1.0) + text + "rest")
    with pytest.raises(ValueError, match="line 2 is not of a sweep"):
        ranges.take_up(path, ranges.dp_sgd_key(1e-5, None))
    assert path.read_text() == line(1.0) + text + "rest"


def printed(line, capsys):
    assert cli.main(line.split()) == 0
    return [json.loads(row) for row in capsys.readouterr().out.splitlines()]


def test_any_mechanism_is_swept(capsys):
    """Users' numbers are those of direct calls, in the order of the flags."""
    rows = printed("sweep --mechanism user_level --with noise_multiplier=2,3 sampling_rate=0.01 "
                   "steps=1000 records_per_user=1:2:2", capsys)
    for row, (noise, count) in zip(rows, [(2, 1), (2, 2), (3, 1), (3, 2)], strict=True):
        step = row["mechanism"]["pipeline"][0]
        assert (step["noise_multiplier"], step["records_per_user"]) == (noise, count)
        curve = worst_case.user_level(noise, 0.01, 1000, count).symmetric()
        got = row["epsilon_lower"], row["epsilon_upper"]
        np.testing.assert_allclose(got, curve.epsilon_bounds(1e-5), rtol=1e-10)


def test_releases_are_swept_with_the_relaxed_adversary(capsys):
    """mu = releases^1/2/std; the relaxed one gains less."""
    rows = printed("sweep --sensitivity 1 --std 1,2 --releases 1,4 --relaxed --dim 3", capsys)
    got = [row["gdp_mu"] for row in rows]
    np.testing.assert_allclose(got, [1.0, 2.0, 0.5, 1.0], rtol=1e-9)
    assert all(row["relaxed"]["epsilon_upper"] < row["epsilon_upper"] for row in rows)
    assert {row["relaxed"]["adversary"] for row in rows} == {"relaxed, dim 3"}


FILE = """[[pipeline]]
mechanism = "gaussian"
mu = [0.1, 0.2]
[[pipeline]]
mechanism = "gaussian"
mu = "0.1:0.3:3"
[certificate]
delta = 1e-6
"""


def check_a_file_is_swept_and_taken_up(tmp_path, capsys):
    """Squares of mu add up; half of an interrupted file is kept."""
    (tmp_path / "a.toml").write_text(FILE)
    out = tmp_path / "sweep.jsonl"
    assert cli.main(["sweep", str(tmp_path / "a.toml"), "--out", str(out)]) == 0
    whole = out.read_text()
    rows = [json.loads(line) for line in whole.splitlines()]
    for row, (a, b) in zip(rows, [(a, b) for a in (0.1, 0.2) for b in (0.1, 0.2, 0.3)],
                           strict=True):
        assert row["delta"] == 1e-6
        want = worst_case.gaussian((a * a + b * b) ** 0.5).epsilon_bounds(1e-6)[1]
        assert row["epsilon_upper"] == pytest.approx(want, rel=1e-9)
    kept = "".join(whole.splitlines(keepends=True)[:3])
    out.write_text(kept + whole.splitlines()[3][:20])
    for _ in range(2):
        assert cli.main(["sweep", str(tmp_path / "a.toml"), "--out", str(out)]) == 0
        assert out.read_text() == whole


def test_a_file_is_swept_and_taken_up(tmp_path, capsys):
    check_a_file_is_swept_and_taken_up(tmp_path, capsys)


def test_a_slip_turns_it_red(tmp_path, capsys, monkeypatch):
    """Rows of the lower instead of the upper bound's ends."""
    numbers = sweeps._numbers
    check_is_red(monkeypatch, sweeps, "_numbers",
                 lambda curves, delta: numbers(curves, 100 * delta) | {"epsilon_upper": 0.4},
                 lambda: check_a_file_is_swept_and_taken_up(tmp_path, capsys))


def test_dp_sgd_of_a_file_is_that_of_flags(tmp_path, capsys):
    (tmp_path / "a.toml").write_text(
        '[dp_sgd]\ndataset_size = 1000\nbatch_size = [10, 20]\nepochs = 1\n'
        'noise_multiplier = "1:2:2"\n')
    flags = "sweep --dataset-size 1000 --batch-size 10,20 --epochs 1 --noise-multiplier 1:2:2"
    assert printed(f"sweep {tmp_path / 'a.toml'}", capsys) == printed(flags, capsys)


def test_lists_that_are_arguments_are_not_swept():
    step = {"mechanism": "gaussian_mixture", "shifts": [0.0, 1.0], "weights": [0.9, 0.1],
            "times": [1, 10]}
    axes, found = combinations("pipeline", {"steps": [step, step], "group": 1})
    assert axes == {"step 1: times": [1, 10], "step 2: times": [1, 10]}
    assert [[one["times"] for one in each["steps"]] for each in found] == [
        [1, 1], [1, 10], [10, 1], [10, 10]]


def drawn(monkeypatch, axes, rows, path):
    figures = []
    whole = sweep_plot.plots.Figure
    monkeypatch.setattr(sweep_plot.plots, "Figure",
                        lambda **more: figures.append(whole(**more)) or figures[-1])
    sweep_plot.draw_sweep(axes, rows, 1e-5, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    return figures[0]


def test_map_shows_every_number_at_its_place(monkeypatch, tmp_path):
    """Unordered values are put in order; what is not certified is left out;
    the contour of epsilon = 2 runs where the numbers say.
    """
    axes = {"noise_multiplier": [4.0, 1.0, 2.0], "steps": [1, 10, 100, 1000]}
    points = [(noise, steps) for noise in axes["noise_multiplier"] for steps in axes["steps"]]
    rows = [{"epsilon_upper": None if point == (4.0, 1) else float(np.log10(point[1]) + point[0])}
            for point in points]
    panel = drawn(monkeypatch, axes, rows, tmp_path / "map.png").axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("steps", "noise multiplier")
    shown = panel.collections[0].get_array()
    want = np.add.outer([1.0, 2.0, 4.0], [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(shown[~shown.mask], want[~shown.mask])
    assert np.argwhere(shown.mask).tolist() == [[2, 0]]


def test_lines_show_both_bounds_and_adversaries(monkeypatch, tmp_path):
    rows = [{"epsilon_lower": x - 0.1, "epsilon_upper": x,
             "relaxed": {"epsilon_lower": 0.0, "epsilon_upper": x / 2}} for x in (2.0, 1.0)]
    panel = drawn(monkeypatch, {"mu": [2.0, 1.0]}, rows, tmp_path / "line.png").axes[0]
    worst, weak = panel.lines
    np.testing.assert_array_equal(worst.get_data(), [[1.0, 2.0], [1.0, 2.0]])
    np.testing.assert_array_equal(weak.get_data(), [[1.0, 2.0], [0.5, 1.0]])
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["worst case", "relaxed"]


def test_plot_of_what_is_taken_up(tmp_path, capsys):
    """The second time nothing is left to compute; three quantities are too many."""
    line = ["sweep", "--noise-multiplier", "2,1", "--dataset-size", "1000", "--batch-size",
            "10,20", "--epochs", "1", "--out", str(tmp_path / "a.jsonl"), "--plot"]
    for name in ("a.png", "b.png"):
        assert cli.main([*line, str(tmp_path / name)]) == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    line[line.index("1")] = "1,2"
    assert cli.main([*line, str(tmp_path / "c.png")]) == 2
    assert "3 vary: --noise-multiplier, --batch-size, epochs" in capsys.readouterr().err
