"""The best of a random number of trainings: what it costs, which is told, and what is left."""

import dataclasses
import json
import os
import stat

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.integrate
import scipy.stats

from jaxpriv import accounting, training
from jaxpriv.training import best, sampling, selection
from jaxpriv.training.selection import Selection, tries_of
from tests.slips import check_is_red
from tests.training.problems import STEPS, data, equal, trainer

NORM = scipy.stats.norm
DATA = data()
TRIES = accounting.NegativeBinomialTries(4.0)
RATES = [0.01, 0.5, 2.0]


def of_rate(rate):
    return trainer(optimizer=optax.sgd(rate))


def score(model):
    return float(np.mean((DATA["x"] @ model > 0) == DATA["y"]))


def select(trainer_of=of_rate, candidates=RATES, **changes):
    settings = {"tries": TRIES, "score": score, "seed": 0, **changes}
    return training.best_of(trainer_of, candidates, DATA, **settings)


class Instant(training.DPTrainer):
    """Whose training is nothing but its candidate."""

    def fit(self, data, **settings):
        model = jnp.asarray(settings["settings"]["candidate"])
        return training.Trained(model, self.privacy, settings["plan"], STEPS, STEPS, 0.1,
                                [{"step": STEPS, "epsilon": 0.1, "right": 0.5}], True,
                                np.zeros(0), np.zeros(0, bool), None)


def instant(candidate):
    del candidate
    made = Instant(lambda w, row, key: jnp.sum(w), jnp.zeros(2), optax.sgd(0.1),
                   training.Privacy(mu=1.0), batch_size=200, steps=1, noise_multiplier=1.0)
    made.plan = lambda size: training.Plan(size, 200, (1.0,), 2)
    return made


def check_best():
    """The best of all that were trained, by its score; each candidate as often, and as many as the
    law says; numbers of one training are told nowhere.
    """
    told, many = [], []
    for seed in range(300):
        seen: list = []

        def noted(model, seen=seen):
            seen.append(float(model))
            return -abs(seen[-1] - 2.0)

        found = training.best_of(instant, [1.0, 2.0, 3.0], DATA, tries=TRIES, score=noted,
                                 seed=seed, plans=[PLAN] * 3)
        assert found.score == max(-abs(each - 2.0) for each in seen)
        assert -abs(found.candidate - 2.0) == found.score
        assert float(found.trained.model) == found.candidate
        assert found.trained.epsilon == found.epsilon > PLAN.profile().epsilon(PLAN.delta)[1]
        assert found.trained.history == [{"step": STEPS, "right": 0.5}]
        many.append(len(seen))
        told += seen
    counts = [told.count(each) for each in (1.0, 2.0, 3.0)]
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    assert abs(np.mean(many) - 4.0) < 5 * np.sqrt(12 / 300)  # geometric: variance 12
    assert len(set(many)) > 4


PLAN = training.Plan(200, 200, (1.0,), 2)


@pytest.fixture
def cheap(monkeypatch):
    """Hundreds of selections of the same plans have one epsilon."""
    true, known = Selection.epsilon, {}

    def once(self, delta=None):
        name = json.dumps([self.settings(), delta])
        if name not in known:
            known[name] = true(self, delta)
        return known[name]

    monkeypatch.setattr(Selection, "epsilon", once)


@pytest.mark.slow
@pytest.mark.usefixtures("cheap")
def test_best():
    check_best()


def exact(epsilon, mu, tries):
    """delta of telling the largest of K normal numbers, shifted by mu or not, by quadrature."""
    gamma = tries.gamma

    def slope(miss):  # phi' of the geometric law, phi(z) = gamma z/(1 - (1 - gamma) z)
        return gamma / (1 - (1 - gamma) * miss) ** 2

    def excess(y, here, there):
        a = NORM.pdf(y - here) * slope(NORM.cdf(y - here))
        b = NORM.pdf(y - there) * slope(NORM.cdf(y - there))
        return max(a - np.exp(epsilon) * b, 0.0)

    return max(
        scipy.integrate.quad(excess, -12, 12, (here, there), limit=400, points=(-2, 0, 2))[0]
        for here, there in ((mu, 0.0), (0.0, mu))
    )


def check_cost():
    """Above what the largest of K noisy numbers costs, which is one way to select; that is within
    a factor of two in epsilon, and more than one training.
    """
    for mu in (0.2, 0.5, 1.0):
        plan = training.Plan(100, 100, (1 / mu,), 1)
        chosen = Selection(TRIES, (plan,))
        for delta in (1e-3, 1e-5):
            epsilon = chosen.epsilon(delta)
            assert exact(epsilon, mu, TRIES) <= delta
            assert exact(epsilon / 2, mu, TRIES) > delta
            assert plan.profile().epsilon(delta)[1] < epsilon
        assert chosen.epsilon_lower <= chosen.epsilon_of_one < chosen.epsilon()


@pytest.mark.slow
def test_cost():
    assert np.isclose(exact(0.0, 1e-9, TRIES), 0.0, atol=1e-8)
    with_one = accounting.NegativeBinomialTries(1 + 1e-4)
    one = training.Plan(100, 100, (1.0,), 1)
    assert np.isclose(exact(1.0, 1.0, with_one), one.curve().delta(1.0), rtol=1e-2)
    check_cost()


def test_cost_of_one_is_seen(monkeypatch):
    check_is_red(monkeypatch, Selection, "epsilon",
                 lambda self, delta=None: self._each[0].epsilon(delta or self.delta), check_cost)


@pytest.mark.slow
def test_cost_is_the_accountant_s():
    """But for what drawn noise adds, which it does not know of."""
    plan = training.Plan(1000, 50, (1.5,) * 40, 10)
    for tries in (TRIES, tries_of("logarithmic", 10), accounting.PoissonTries(5.0)):
        known = accounting.selection_epsilon(plan.curve(), tries, 1e-5)
        found = Selection(tries, (plan,)).epsilon(1e-5)
        assert known <= found <= known * (1 + 1e-3)


@pytest.mark.slow
def test_cost_of_slow_curves():
    """From few evaluations: no less, and not much more."""
    plan = training.Plan(1000, 100, (4.0,) * 20, 10, sampler=sampling.Shuffled())
    assert plan.sampler.slow
    known = accounting.selection_epsilon(plan.curve(), TRIES, 1e-5)
    assert known <= Selection(TRIES, (plan,)).epsilon() <= 1.05 * known


def test_worst_of_plans():
    """Candidates of other noise: as the worst of them, wherever it stands."""
    noisy, less = training.Plan(100, 100, (2.0,), 1), training.Plan(100, 100, (1.0,), 1)
    alone, both = Selection(TRIES, (less,)), Selection(TRIES, (noisy, less))
    assert both.epsilon() == Selection(TRIES, (less, noisy, noisy)).epsilon()
    assert np.isclose(both.epsilon(), alone.epsilon(), rtol=1e-12)
    assert both.epsilon_of_one == alone.epsilon_of_one
    assert both.epsilon_lower == 0.0 < alone.epsilon_lower
    assert Selection(accounting.PoissonTries(5.0), (less,)).epsilon_lower == 0.0


def one_release(epsilon):
    privacy = training.Privacy(epsilon=epsilon)
    return [training.make_plan(privacy, 100, 1, batch_size=100, steps=1)]


def check_each():
    """The selection just meets its target; that by the largest of K noisy numbers is no better
    than half of that.
    """
    for target in (0.5, 3.0):
        one = Selection.epsilon_of_each(TRIES, one_release, target)
        (plan,) = one_release(one)
        assert 0.997 * target < Selection(TRIES, (plan,)).epsilon() <= target
        assert exact(target / 2, 1 / plan.noise_multipliers[0], TRIES) > plan.delta


@pytest.mark.slow
def test_each_of_a_target():
    check_each()


def test_each_as_if_it_were_alone_is_seen(monkeypatch):
    check_is_red(monkeypatch, Selection, "epsilon_of_each",
                 classmethod(lambda cls, tries, plans_of, epsilon: epsilon), check_each)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_no_target(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        Selection.epsilon_of_each(TRIES, one_release, epsilon)


@pytest.mark.slow
def test_a_target_that_none_keeps():
    """Where trainings cost what they cost, whatever is asked of them."""
    plans = (training.Plan(100, 100, (1.0,), 1),)
    with pytest.raises(ValueError, match="needs trainings of epsilon below"):
        Selection.epsilon_of_each(TRIES, lambda one: plans, 0.1)


@pytest.mark.slow
def test_points_hold():
    plan = training.Plan(100, 100, (1.0,), 1)
    chosen = Selection(TRIES, (plan,))
    points = {delta: epsilon for epsilon, delta in chosen.points}
    assert points[plan.delta] == chosen.epsilon()
    assert len(points) == 6
    for delta, epsilon in points.items():
        assert exact(epsilon, 1.0, TRIES) <= delta
    # where not even one training has a bound
    bare = Selection(TRIES, (training.Plan(100, 100, (1e-3,), 1),))
    assert bare.epsilon() > 500
    assert bare.points == [(0.0, 1.0)]


@pytest.mark.parametrize(("law", "mean", "eta", "settings"), [
    ("geometric", 10, None, {"law": "geometric", "mean": 10}),
    ("logarithmic", 3.5, None, {"law": "logarithmic", "mean": 3.5}),
    ("poisson", 5, None, {"law": "poisson", "mean": 5}),
    ("negative_binomial", 5, 2.5, {"law": "negative_binomial", "mean": 5, "eta": 2.5})])
def test_laws_by_name(law, mean, eta, settings):
    plan = training.Plan(100, 100, (1.0,), 1)
    found = Selection(tries_of(law, mean, eta), (plan, plan)).settings()
    assert found == {"tries": settings, "mechanisms": [plan.settings()]}
    assert tries_of(**settings) == tries_of(law, mean, eta)


class Cut(Exception):
    pass


def cut_after(calls):
    """A score that fails once, after so many of them."""
    left = [calls]

    def failing(model):
        left[0] -= 1
        if left[0] == 0:
            raise Cut
        return score(model)

    return failing


SEED = 12  # five tries


def check_resumed(tmp_path):
    """Cut off between two tries, and within one: gone on with, it is the selection that it would
    have been, and no try is trained again.
    """
    whole = select(seed=SEED)
    folder = tmp_path / "run"
    with pytest.raises(Cut):
        select(seed=SEED, folder=folder, score=cut_after(3))
    before = {path.name: (path / "ledger.jsonl").read_bytes()
              for path in (folder / "tries").iterdir()}
    assert sorted(before) == ["0", "1", "2"]

    def within(model):
        raise Cut

    with pytest.raises(Cut):
        select(seed=SEED, folder=folder, resume=True, evaluate=within)
    after = {path.name: (path / "ledger.jsonl").read_bytes()
             for path in (folder / "tries").iterdir()}
    assert sorted(after) == ["0", "1", "2", "3"]
    assert {name: after[name] for name in before} == before
    found = select(seed=SEED, folder=folder, resume=True)
    assert equal(found.trained.model, whole.trained.model)
    assert (found.candidate, found.score) == (whole.candidate, whole.score)
    return folder


@pytest.mark.slow
def test_resumed(tmp_path):
    folder = check_resumed(tmp_path)
    # what is left tells of the winner alone
    assert sorted(path.name for path in folder.iterdir()) == [
        "ledger.jsonl", "metrics.jsonl", "selection.json"]
    assert "epsilon" not in (folder / "metrics.jsonl").read_text()
    assert "tries/" not in (folder / "ledger.jsonl").read_text()
    assert training.spent(folder / "ledger.jsonl")[1] == STEPS
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"has a selection|is done"):
            select(seed=SEED, folder=folder, resume=resume)


@pytest.mark.slow
def test_candidates_are_not_drawn_anew(monkeypatch, tmp_path):
    """With other keys the tries that are there would be of other candidates: that is refused."""
    def redrawn(folder, header, true=best._gone_on):
        return true(folder, header)._replace(sampling=jax.random.key(7))

    monkeypatch.setattr(best, "_gone_on", redrawn)
    with pytest.raises(ValueError, match=r"settings.candidate: 2.0 -> 0.5"):
        check_resumed(tmp_path)


@pytest.mark.slow
def test_secrets_while_it_runs(tmp_path):
    """Keys and tries are their owner's; those of the system differ every time; what is told is told
    before anything is deleted.
    """
    seen = []
    found = select(seed=None, folder=tmp_path / "run", then=lambda told: seen.append(
        (told, sorted(path.name for path in (tmp_path / "run").iterdir()))))
    assert seen == [(found, ["keys.json", "selection.json", "tries"])]
    assert found.trained.private
    with pytest.raises(Cut):
        select(seed=None, folder=tmp_path / "other", score=cut_after(1))
    for name in ("keys.json", "tries"):
        assert stat.S_IMODE(os.stat(tmp_path / "other" / name).st_mode) & 0o077 == 0
    key = training.best.fresh_keys().sampling
    assert not equal(jax.random.key_data(key),
                     jax.random.key_data(training.best.fresh_keys().sampling))


@pytest.mark.slow
def test_an_end_that_was_cut_off(tmp_path, monkeypatch):
    """Done is done: what is left of the tries goes with the next call, and nothing runs again."""
    folder = tmp_path / "run"
    monkeypatch.setattr(best, "_cleared", lambda folder: None)
    select(folder=folder)
    monkeypatch.undo()
    assert (folder / "tries").exists()
    with pytest.raises(ValueError, match="is done"):
        select(folder=folder, resume=True)
    assert not (folder / "tries").exists()
    assert not (folder / "keys.json").exists()


@pytest.mark.usefixtures("cheap")
def test_nothing_trained(tmp_path):
    """A Poisson number of tries may be none: that is told, and is the end."""
    seen = []
    found = training.best_of(instant, [1.0], DATA, tries=accounting.PoissonTries(1e-6), score=float,
                             seed=0, folder=tmp_path, plans=[PLAN], then=seen.append)
    assert (found.trained, found.candidate, found.score) == (None, None, None)
    assert seen == [found]
    assert found.epsilon > 0
    with pytest.raises(ValueError, match="is done"):
        training.best_of(instant, [1.0], DATA, tries=accounting.PoissonTries(1e-6), score=float,
                         seed=0, folder=tmp_path, plans=[PLAN], resume=True)


@pytest.mark.usefixtures("cheap")
def test_nan_is_worst():
    found = training.best_of(
        instant, [1.0, 2.0], DATA, tries=accounting.NegativeBinomialTries(20.0), seed=1,
        score=lambda model: float("nan") if model > 1.5 else -1e300, plans=[PLAN] * 2)
    assert (found.candidate, found.score) == (1.0, -1e300)


@pytest.mark.slow
def test_resumed_with_others(tmp_path):
    """Other candidates, laws, settings or data are refused, with the difference."""
    folder = tmp_path / "run"
    with pytest.raises(Cut):
        select(seed=SEED, folder=folder, score=cut_after(2))
    ledgers = sorted(path.read_bytes() for path in folder.rglob("ledger.jsonl"))
    for changes, words in (
        ({"candidates": RATES[:2]}, "candidates: "),
        ({"tries": accounting.NegativeBinomialTries(5.0)}, r"mean: 4.0 -> 5.0"),
        ({"settings": {"a": 1}}, "settings: none ->"), ({"seed": None}, "seed: 12 -> none")):
        with pytest.raises(ValueError, match=words):
            select(folder=folder, resume=True, **{"seed": SEED, **changes})
    other = {**DATA, "x": DATA["x"] + 1}
    with pytest.raises(ValueError, match="other data"):
        training.best_of(of_rate, RATES, other, tries=TRIES, score=score, seed=SEED, folder=folder,
                         resume=True)
    assert sorted(path.read_bytes() for path in folder.rglob("ledger.jsonl")) == ledgers


@pytest.mark.parametrize(("changes", "words"), [
    ({"candidates": []}, "no candidates"),
    ({"tries": 10}, "tries = 10; accepted"),
    ({"trainer_of": lambda rate: rate}, "accepted: a DPTrainer"),
    ({"settings": object()}, "anything JSON holds"),
    ({"resume": True}, "without a folder"),
    ({"seed": -1}, "seed = -1"),
    ({"plans": [PLAN]}, "1 plans for 3 candidates"),
    ({"users": np.zeros(200)}, "records_per_user = 1 with users"),
    ({"plans": [PLAN, PLAN, dataclasses.replace(PLAN, delta=1e-6)]}, "differ in delta"),
    ({"plans": [PLAN, PLAN, dataclasses.replace(PLAN, records_per_user=2)]},
     "records_per_user = 2"),
    ({"plans": [PLAN, PLAN, dataclasses.replace(PLAN, dataset_size=300)]},
     "differ in dataset_size"),
    ({"plans": [PLAN, PLAN, dataclasses.replace(PLAN, batch_size=100,
                                            sampler=sampling.FixedSize())]},
     "differ in adjacency")])
def test_refusals(changes, words, tmp_path):
    folder = None if "resume" in changes else tmp_path / "run"
    with pytest.raises(ValueError, match=words):
        select(folder=folder, **changes)
    assert not list(tmp_path.rglob("keys.json"))


@pytest.mark.parametrize(("arguments", "words"), [
    (("best", 10), "tries = 'best'"), (("geometric", 1.0), "mean = 1"),
    (("geometric", 10, 1.0), "eta = 1.0"), (("negative_binomial", 10), "eta = None"),
    (("poisson", 1e6), "mean = "), (("poisson", 5, 1.0), "eta = 1.0")])
def test_bad_laws(arguments, words):
    with pytest.raises(ValueError, match=words):
        tries_of(*arguments)


def test_a_broken_header(tmp_path):
    with pytest.raises(ValueError, match="has no selection"):
        select(folder=tmp_path, resume=True)
    for content in ("{", "[1]"):
        (tmp_path / "selection.json").write_text(content)
        with pytest.raises(ValueError, match="is broken"):
            select(folder=tmp_path, resume=True)
        with pytest.raises(ValueError, match="has a selection"):
            select(folder=tmp_path)


@pytest.mark.slow
def test_a_start_that_was_cut_off(tmp_path):
    """Keys without a selection drew nothing: a new start makes others."""
    (tmp_path / "keys.json").write_text("half of")
    assert select(folder=tmp_path).trained is not None
    assert selection.LAWS
