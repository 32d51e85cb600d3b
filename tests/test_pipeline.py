"""Pipelines: numbers against direct calls and enumeration, words, and hostile tables."""

import inspect
import itertools
import json
import math
import shlex
import tomllib

import numpy as np
import pytest

import jaxpriv
from jaxpriv import cli, compose, relaxed, worst_case
from jaxpriv.report import Pipeline, certify
from jaxpriv.report.arguments import arguments_of
from jaxpriv.report.audit import claims_from
from jaxpriv.report.config import read_toml
from jaxpriv.report.plots import draw
from jaxpriv.report.table import render
from jaxpriv.report.wording import LEFT_OUT, mechanisms
from tests.command import ROOT, run
from tests.stats.checks import compilations

DP_SGD = {"mechanism": "subsampled_gaussian", "noise_multiplier": 1.0, "sampling_rate": 0.01,
          "steps": 1000}
NORMAL = {"mechanism": "gaussian", "mu": 0.5}
LAPLACE = {"mechanism": "laplace", "ratio": 0.2}
ANSWER = {"mechanism": "randomized_response", "epsilon": 0.5}
BOX = {"mechanism": "approximate_dp", "epsilon": 0.1, "delta": 1e-7}
MIXTURE = {"mechanism": "gaussian_mixture", "shifts": [0.0, 1.0], "weights": [0.9, 0.1]}
USERS = {"mechanism": "user_level", "noise_multiplier": 2.0, "sampling_rate": 0.01, "steps": 1000,
         "records_per_user": 4}
DEALT = {"mechanism": "random_allocation", "noise_multiplier": 1.0, "steps": 100}
SHUFFLED = {"mechanism": "shuffled_gaussian", "noise_multiplier": 1.0, "steps": 1000}


def worst(*steps, group=1):
    return Pipeline(list(steps), group).adversaries()[0][2]


DIRECT = {
    "gaussian": ([NORMAL | {"times": 4}], lambda: worst_case.gaussian(1.0)),
    "approximate_dp": ([BOX | {"delta": 1e-6}], lambda: worst_case.approximate_dp(0.1, 1e-6)),
    "subsampled_gaussian": (
        [DP_SGD], lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric()),
    "with gaussian": (
        [DP_SGD, NORMAL],
        lambda: compose(worst_case.subsampled_gaussian(1.0, 0.01, 1000),
                        worst_case.gaussian(0.5)).symmetric()),
    "replace_one": (
        [DP_SGD | {"adjacency": "replace_one", "sampling": "fixed_size", "steps": 1}],
        lambda: worst_case.subsampled_gaussian(1.0, 0.01, 1, adjacency="replace_one",
                                               sampling="fixed_size")),
    "gaussian_mixture": (
        [MIXTURE | {"times": 10}],
        lambda: worst_case.subsampled_gaussian(1.0, 0.1, 10).symmetric()),
    "user_level": (
        [USERS, MIXTURE],
        lambda: compose(worst_case.user_level(2.0, 0.01, 1000, 4),
                        worst_case.gaussian_mixture([0.0, 1.0], [0.9, 0.1])).symmetric()),
    "random_allocation": (
        [DEALT], lambda: worst_case.random_allocation(1.0, 100).symmetric()),
    "shuffled_gaussian": (
        [SHUFFLED], lambda: worst_case.shuffled_gaussian(1.0, 1000).symmetric()),
    "shuffled, replaced": (
        [SHUFFLED | {"adjacency": "replace_one"}],
        lambda: worst_case.shuffled_gaussian(1.0, 1000, adjacency="replace_one")),
}


@pytest.mark.parametrize("name", DIRECT)
def test_values_are_those_of_direct_calls(name):
    """Both ends of both brackets."""
    steps, direct = DIRECT[name]
    got, want = worst(*steps), direct()
    np.testing.assert_allclose(got.epsilon_bounds(1e-5), want.epsilon_bounds(1e-5), rtol=1e-10)
    np.testing.assert_allclose(got.advantage_bounds(), want.advantage_bounds(), rtol=1e-10)


def test_composed_answers_against_enumeration():
    """Three answers at epsilon = 1/2, and one at 1: delta = sum of (p - e^eps q)_+."""
    p, q = np.ones(1), np.ones(1)
    for epsilon in (0.5, 0.5, 0.5, 1.0):
        truth = 1 / (1 + math.exp(-epsilon))
        p, q = np.outer(p, [truth, 1 - truth]).ravel(), np.outer(q, [1 - truth, truth]).ravel()
    curve = worst(ANSWER | {"times": 3}, ANSWER | {"epsilon": 1.0})
    for epsilon in (0.3, 1.1):
        want = np.sum(np.maximum(p - math.exp(epsilon) * q, 0))
        low, high = curve.delta_bounds(epsilon)
        assert low <= want * (1 + 1e-12)
        assert want * (1 - 1e-12) <= high < low * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        [DP_SGD, LAPLACE, BOX],
        [SHUFFLED | {"adjacency": "replace_one"}, BOX],
        [SHUFFLED | {"adjacency": "replace_one"},
         DP_SGD | {"adjacency": "replace_one", "sampling": "fixed_size", "steps": 10}],
        [SHUFFLED, LAPLACE],
        [DEALT, LAPLACE],
        [USERS, MIXTURE, BOX],
    ],
)
def test_whatever_goes_together_composes(steps):
    """Curves without a direction beside those with one; no less than the largest member tells."""
    low, high = worst(*steps).epsilon_bounds(1e-5)
    assert max(worst(step).epsilon_bounds(1e-5)[0] for step in steps) < low <= high < 20


@pytest.mark.parametrize(
    ("step", "want"),
    [(NORMAL, lambda: worst_case.gaussian(1.5)), (LAPLACE, lambda: worst_case.laplace(0.6)),
     (ANSWER, lambda: worst_case.randomized_response(0.5).group(3))],
)
def test_a_group_is_of_the_whole_pipeline(step, want):
    curve = worst(step, group=3)
    np.testing.assert_allclose(curve.advantage_bounds(), want().advantage_bounds(), rtol=1e-9)
    pipeline = Pipeline([step], 3)
    assert "up to 3 changes together" in pipeline.adjacency
    assert "for a group of 3" in pipeline.describe()
    assert len(pipeline.adversaries()) == 1


def public_makers():
    """What of `worst_case` makes something, by name."""
    return {name for name, value in vars(worst_case).items()
            if inspect.isfunction(value) and not name.startswith("_")
            and value.__module__.startswith(("jaxpriv.worst_case", "jaxpriv.catalogue"))}


def test_every_mechanism_is_there_or_left_out_with_a_reason():
    assert public_makers() == {*mechanisms(), *LEFT_OUT}
    assert all(LEFT_OUT.values())
    own = {"mechanism", "times", "dim", "group"}
    for name in mechanisms():
        assert own.isdisjoint(inspect.signature(getattr(worst_case, name)).parameters)


WORDS = {
    "users": ([USERS, LAPLACE], 1,
              ["add/remove one user with all of its records: whole users are protected",
               "what laplace are given has to be for this relation"],
              ["in user_level Poisson, each of a user's records, 4 at most", "0.01",
               "in laplace none"]),
    "users in groups": ([USERS], 2, ["up to 2 users together, with all of their records"], []),
    "zeroed out": ([SHUFFLED], 1, ["zero out one record"],
                   ["permuted before each of 1 epochs and dealt into 1000 batches"]),
    "replaced": ([SHUFFLED | {"adjacency": "replace_one"}], 1, ["replace one record by another"],
                 []),
    "replaced in groups": ([SHUFFLED | {"adjacency": "replace_one"}], 4,
                           ["replace up to 4 records together by others"], []),
    "fixed size": ([DP_SGD | {"sampling": "fixed_size"}], 1, ["add/remove one record"],
                   ["without replacement"]),
    "dealt": ([DEALT | {"selected": 2}], 1, ["add/remove one record"],
              ["2 of an epoch's 100 steps", "anew in every epoch (1 in all)"]),
    "open": ([NORMAL, BOX], 1, ["the one that sensitivities, ε and δ of the steps are given for"],
             ["none, every record takes part"]),
}


@pytest.mark.parametrize("name", WORDS)
def test_adjacency_and_sampling_in_words(name):
    steps, group, adjacency, sampling = WORDS[name]
    pipeline = Pipeline(steps, group)
    for words in adjacency:
        assert words in pipeline.adjacency
    for words in sampling:
        assert words in pipeline.sampling


def test_what_bounds_are_worth_in_words():
    """Where brackets are not of the mechanism itself the assumption says so."""
    def assumption(*steps):
        return Pipeline(list(steps)).adversaries()[0][1]

    assert "Only the upper ends" in assumption(DEALT | {"selected": 2})
    assert "Only the upper ends" not in assumption(DEALT)
    assert "what known attacks reach" in assumption(SHUFFLED)
    assert "results of all steps" in assumption(NORMAL, BOX)
    assert "results of all steps" not in assumption(BOX)


def test_a_description_has_all_numbers():
    told = Pipeline([DP_SGD, MIXTURE | {"times": 3}, MIXTURE | {
        "shifts": [0.0, 1, 2, 3, 4], "weights": [0.2] * 5}]).describe()
    assert told.startswith("Pipeline of 3 mechanisms: DP-SGD (subsampled_gaussian: ")
    assert "noise_multiplier 1, sampling_rate 0.01, steps 1000, adjacency add_remove" in told
    assert "shifts [0, 1], weights [0.9, 0.1]), 3 times" in told
    assert "shifts of 5 numbers" in told


def test_relaxed_rows_where_every_step_has_one():
    steps = [DP_SGD | {"dim": 3}, DP_SGD | {"dim": 3, "noise_multiplier": 2.0, "times": 2}]
    name, assumption, curve = Pipeline(steps).adversaries()[1]
    assert name == "relaxed, dim 3"
    assert "sees each one's magnitude" in assumption
    want = compose(relaxed.subsampled_gaussian(1.0, 0.01, 1000, 3),
                   relaxed.subsampled_gaussian(2.0, 0.01, 2000, 3)).symmetric()
    np.testing.assert_allclose(curve.advantage_bounds(), want.advantage_bounds(), rtol=1e-10)
    assert Pipeline([LAPLACE, DP_SGD | {"dim": 2}, DP_SGD]).adversaries()[1][0] == "relaxed"
    name, assumption, curve = Pipeline([NORMAL | {"times": 4, "dim": 9}]).adversaries()[1]
    assert assumption == relaxed.ASSUMPTION
    want = relaxed.gaussian(1.0, 9).symmetric()
    np.testing.assert_allclose(curve.advantage_bounds(), want.advantage_bounds(), rtol=1e-10)


@pytest.mark.parametrize(
    "steps",
    [[NORMAL, BOX], [NORMAL, NORMAL | {"dim": 2}], [DP_SGD | {"sampling": "fixed_size"}],
     [DP_SGD | {"adjacency": "replace_one"}], [USERS], [DEALT], [SHUFFLED]],
)
def test_no_relaxed_row_where_none_is_known(steps):
    assert len(Pipeline(steps).adversaries()) == 1


def test_what_is_infinite_is_none_in_json(tmp_path):
    """A black box that tells everything with more probability than delta; it is drawn as well."""
    pipeline = Pipeline([BOX | {"delta": 1e-3}])
    certificate = certify(pipeline)
    row = json.loads(json.dumps(certificate, allow_nan=False))["adversaries"][0]
    assert row["epsilon"] is row["epsilon_lower"] is row["mu_at_slack"] is None
    assert 0 < row["advantage"] < 0.1
    sheet = render(certificate)
    assert "[∞, ∞]" in sheet.rows[0]
    assert certificate["notes"][0].startswith("No relaxed adversary is known")
    assert "vacuous" in certificate["notes"][1]
    assert certificate["mechanism"] == {"pipeline": [BOX | {"delta": 1e-3}], "group": 1}
    for each in (pipeline, Pipeline([BOX | {"delta": 1.0}])):
        draw(each, 1e-5, tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


NOT_FINITE = [math.nan, math.inf, -math.inf]
BAD = [
    ([], "at least one step"),
    (["gaussian"], "step 1 = 'gaussian' is not a table"),
    ([{"mu": 1.0}], "step 1: mechanism is missing"),
    ([{"mechanism": "gausian", "mu": 1.0}], "'gausian' is unknown; did you mean 'gaussian'?"),
    ([{"mechanism": "xyz"}], "accepted: gaussian, laplace"),
    ([{"mechanism": ["gaussian"]}], "is unknown"),
    ([{"mechanism": 3}], "mechanism = 3 is unknown"),
    ([{"mechanism": "signal"}], "'signal' is unknown: a number, no mechanism"),
    ([{"mechanism": "STEPS"}], "'STEPS' is unknown"),
    ([{"mechanism": "__doc__"}], "'__doc__' is unknown"),
    ([NORMAL, {"mechanism": "laplace"}], "step 2 (laplace): ratio is missing"),
    ([DP_SGD | {"noise_multiplyer": 1}], "'noise_multiplyer'; did you mean 'noise_multiplier'?"),
    ([LAPLACE | {"dim": 2}], "step 1 (laplace): unknown argument 'dim'; accepted: ratio, times"),
    ([NORMAL | {"mu": "one"}], "step 1 (gaussian): mu = 'one' is not a number"),
    ([NORMAL | {"mu": True}], "mu = True is not a number"),
    ([NORMAL | {"mu": [0.5, 1.0]}], "mu = [0.5, 1.0] is a list; expected one number"),
    ([NORMAL | {"mu": {"a": 1}}], "mu = {'a': 1} is not a number"),
    ([NORMAL | {"mu": None}], "mu = None is not a number"),
    ([NORMAL | {"mu": 10**400}], "is beyond 1e+15"),
    ([NORMAL | {"mu": 1e300}], "mu = 1e+300 is beyond 1e+15"),
    ([MIXTURE | {"shifts": [0.0, 1e300]}], "shifts = [0.0, 1e+300] is beyond 1e+15"),
    ([DP_SGD | {"noise_multiplier": 1e-300}], "noise_multiplier = 1e-300 is outside its range"),
    ([NORMAL | {"mu": -1}], "mu = -1.0 is outside its range [0, inf)"),
    *(([NORMAL | {"mu": value}], "mu = ") for value in NOT_FINITE),
    *(([DP_SGD | {"steps": value}], "steps = ") for value in (*NOT_FINITE, -1, "many")),
    *(([NORMAL | {"times": value}], "times = ") for value in (0, -1, 1.5, math.nan, "two", True)),
    *(([NORMAL | {"dim": value}], "dim = ") for value in (0, 1.5, "two")),
    ([DP_SGD | {"sampling_rate": 2}], "step 1 (subsampled_gaussian): sampling_rate = 2"),
    ([DP_SGD | {"sampling_rate": 0}], "sampling_rate = 0"),
    ([DP_SGD | {"noise_multiplier": 0}], "noise_multiplier = 0"),
    ([DP_SGD | {"sampling": "shuffle"}], "sampling = 'shuffle'"),
    ([DP_SGD | {"adjacency": "both"}], "adjacency = 'both'"),
    ([DP_SGD | {"adjacency": [1]}], "adjacency = [1]"),
    ([SHUFFLED | {"adjacency": "add_remove"}], "adjacency = 'add_remove'"),
    ([SHUFFLED | {"epochs": 1.5}], "epochs = 1.5"),
    ([DEALT | {"steps": 1.5}], "steps = 1.5 is not whole"),
    ([DEALT | {"selected": 101}], "selected = 101"),
    ([MIXTURE | {"weights": [0.5, 0.4]}], "weights"),
    ([MIXTURE | {"weights": [0.5, 0.4, 0.1]}], "shifts has 2 components"),
    ([MIXTURE | {"shifts": [[0.0, 1.0]]}], "shifts = [[0.0, 1.0]] is not a number"),
    ([MIXTURE | {"shifts": [0.0, math.nan]}], "shifts = [0.0, nan] is not a number"),
    ([USERS | {"records_per_user": 1.5}], "records_per_user = 1.5"),
    ([DP_SGD, SHUFFLED], "adjacency differs: 'add_remove' in step 1 (subsampled_gaussian), "
                         "'zero_out' in step 2 (shuffled_gaussian)"),
    ([LAPLACE, MIXTURE, DP_SGD | {"adjacency": "replace_one"}], "adjacency differs"),
    ([DP_SGD, LAPLACE, USERS], "who is protected differs: 'record' in step 1"),
]


@pytest.mark.parametrize(("steps", "words"), BAD)
def test_bad_steps_are_one_clear_error(steps, words):
    with pytest.raises(ValueError, match="step|adjacency|protected") as error:
        Pipeline(steps)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("group", [0, -1, 1.5, math.nan, "two", True, 1001, None, [2]])
def test_bad_groups(group):
    with pytest.raises(ValueError, match="group = "):
        Pipeline([NORMAL], group)


FILES = {
    "[[pipeline]]\nmechanism = 'laplace'\nratio = -1\n": "step 1 (laplace): ratio = -1",
    "[[pipeline]]\nmechanism = 'laplace'\nratio = 1979-05-27\n": "step 1 (laplace): ratio = ",
    "[[pipeline]]\nmechanism = 'laplace'\nratio = nan\n": "step 1 (laplace): ratio = nan",
    "[pipeline]\nmechanism = 'laplace'\n": "double brackets, [[pipeline]]",
    "[[mechanism]]\nstd = 1.0\n": "mechanism is written in single, [mechanism]",
    "pipeline = []\n": "at least one step",
    "pipeline = [1, 2]\n": "step 1 = 1 is not a table",
    "pipeline = 'laplace'\n": "[mechanism] table is missing",
    "group = 2\n[mechanism]\nstd = 1.0\n": "unknown setting 'group'",
    "group = 2\n[[pipeline]]\nmechanism = 'laplace'\nratio = 1.0\n[certificate]\ngroup = 2\n":
        "group is there twice",
    "group = 0\n[[pipeline]]\nmechanism = 'laplace'\nratio = 1.0\n": "group = 0 is outside",
    "group = []\n[[pipeline]]\nmechanism = 'laplace'\nratio = 1.0\n": "group = [] is outside",
    "[[pipeline]]\nmechanism = 'laplace'\nratio = 1.0\n[dp_sgd]\nepochs = 1\n":
        "both [dp_sgd] and [pipeline]",
    "[[pipeline]]\nmechanism = 'laplace'\nratio = 1.0\n[certificate]\ndleta = 1.0\n":
        "unknown setting 'dleta'",
    "[[pipelines]]\nmechanism = 'laplace'\n": "unknown table [pipelines]",
}
LINES = {
    "--mechanism laplac --with ratio=1": "did you mean 'laplace'?",
    "--mechanism laplace": "step 1 (laplace): ratio is missing",
    "--mechanism laplace --with ratio": "--with 'ratio': expected name=value",
    "--mechanism laplace --with =1": "expected name=value",
    "--mechanism laplace --with ratio=": "expected name=value",
    "--mechanism laplace --with ratio=1 ratio=2": "ratio is there twice",
    "--mechanism laplace --with mechanism=gaussian": "mechanism is there twice",
    "--mechanism laplace --with ratio=1,2": "ratio = [1, 2] is a list",
    "--mechanism laplace --with ratio=nan": "ratio = nan",
    "--mechanism subsampled_gaussian --with noise_multiplier=-1 sampling_rate=1 steps=1":
        "(subsampled_gaussian): noise_multiplier = -1.0",
    "--mechanism laplace --with ratio=1 --group 0": "group = 0",
    "--mechanism laplace --with ratio=1 --std 2": "--std does not go with --mechanism",
    "--mechanism laplace --epsilon 2": "--epsilon does not go with --mechanism",
    "--with ratio=1": "--with goes with --mechanism",
    "--group 2 --sensitivity 1 --std 1": "--group goes with --mechanism",
    "examples/pipeline.toml --mechanism laplace": "not both (--mechanism)",
    "--mechanism laplace --with ratio=1 --delta 2": "delta = 2.0 is outside",
}


def refused(words, line, capsys):
    assert cli.main(["certify", *line]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("jaxpriv: ")
    assert errors.count("\n") == 1
    assert words in errors


@pytest.mark.parametrize("text", FILES)
def test_bad_files(text, tmp_path, capsys):
    (tmp_path / "a.toml").write_text(text)
    refused(FILES[text], [str(tmp_path / "a.toml")], capsys)


@pytest.mark.parametrize("line", LINES)
def test_bad_lines(line, capsys):
    refused(LINES[line], shlex.split(line), capsys)


def test_values_on_the_command_line():
    assert arguments_of(["a=1", "b=1e3", "c=0,.5", "d=word", "e=true", "f=a,b"]) == {
        "a": 1, "b": 1000.0, "c": [0, 0.5], "d": "word", "e": True, "f": "a,b"}


def test_flags_say_what_a_file_says(tmp_path, capsys):
    """Without compiling anything."""
    (tmp_path / "a.toml").write_text(
        "[[pipeline]]\nmechanism = 'gaussian_mixture'\nshifts = [0, 1.0]\nweights = [0.9, 0.1]\n"
        "[certificate]\ndelta = 1e-6\n"
    )
    line = "--mechanism gaussian_mixture --with shifts=0,1 weights=0.9,.1 --delta 1e-6"
    with compilations() as found:
        assert cli.main(["certify", str(tmp_path / "a.toml"), "--json"]) == 0
        by_file = json.loads(capsys.readouterr().out)
        assert cli.main(["certify", *line.split(), "--json"]) == 0
        by_flags = json.loads(capsys.readouterr().out)
    assert found == []
    assert by_flags == by_file
    low, high = worst_case.subsampled_gaussian(1.0, 0.1, 1).symmetric().epsilon_bounds(1e-6)
    row = by_file["adversaries"][0]
    assert low * (1 - 1e-9) <= row["epsilon_lower"] <= row["epsilon"] <= high * (1 + 1e-9)


@pytest.mark.parametrize("place", ["group = 2\n{}", "{}[certificate]\ngroup = 2\n"])
def test_an_audit_takes_a_pipeline_for_a_claim(place, tmp_path):
    (tmp_path / "a.toml").write_text(place.format("[[pipeline]]\nmechanism='gaussian'\nmu=0.5\n"))
    claims, delta = claims_from(read_toml(tmp_path / "a.toml"))
    assert delta == 1e-5
    assert [name for name, _ in claims] == ["claimed, worst case"]
    want = worst_case.gaussian(1.0)
    np.testing.assert_allclose(claims[0][1].power(0.1), want.power(0.1), rtol=1e-12)


def test_the_example_is_what_readme_composes():
    content = tomllib.loads((ROOT / "examples" / "pipeline.toml").read_text())
    assert content == {"pipeline": [DP_SGD, LAPLACE, BOX], "certificate": {"delta": 1e-5}}
    assert "jaxpriv certify examples/pipeline.toml" in (ROOT / "README.md").read_text()
    assert "add/remove one record" in Pipeline(content["pipeline"]).adjacency


@pytest.mark.slow
@pytest.mark.long
def test_the_example_runs(environment, tmp_path):
    done = run(environment, "certify", "examples/pipeline.toml", "--json", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)["adversaries"][0]
    assert 1.98737 < row["epsilon_lower"] <= row["epsilon"] < 1.98738
    assert (tmp_path / "certificate.png").read_bytes().startswith(b"\x89PNG")


def test_all_pairs_of_steps_compose_or_are_refused():
    """No traceback, whatever stands beside what."""
    steps = [NORMAL, LAPLACE, ANSWER, BOX, DP_SGD, DP_SGD | {"adjacency": "replace_one"}, MIXTURE,
             USERS, DEALT, SHUFFLED, SHUFFLED | {"adjacency": "replace_one"}]
    refused = []
    for pair in itertools.combinations(steps, 2):
        try:
            assert isinstance(worst(*pair), jaxpriv.Curve)
        except ValueError as error:
            refused.append("differs" in str(error))
    assert refused == [True] * 16
