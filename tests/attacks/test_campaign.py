"""A campaign on a training whose curve is known, on one that overfits; what its table says."""

import pathlib
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxpriv import attacks, auditing, random, worst_case
from jaxpriv.attacks import campaign_report
from jaxpriv.attacks.campaign import _balanced

MU, RECORDS, OTHERS, TARGETS = 2.0, 300, 200, 8
ATTACKS = ["loss threshold", "offline LiRA", "online LiRA", "offline RMIA", "online RMIA"]


def noisy_sum(key, data, member):
    """Every record has a coordinate of its own: the curve is Gaussian with mu = MU, exactly, and
    all records are independent of each other.
    """
    places = jnp.arange(RECORDS + OTHERS)
    return jnp.zeros(len(places)).at[data].set(member) + random.normal(key, places.shape) / MU


def coordinate(released, data):
    return released[data]


def run(curve, seed=0, train=noisy_sum, **settings):
    data = jnp.arange(RECORDS + OTHERS)
    return attacks.campaign(
        jax.random.key(seed), train, coordinate, data[:RECORDS], data[RECORDS:], targets=TARGETS,
        curve=curve, **{"shadows": 40, **settings},
    )  # fmt: skip


def check_campaign():
    """No attack refutes the curve that holds, every one a curve that does not; they nearly reach
    it.
    """
    curve = worst_case.gaussian(MU)
    found = run(curve)
    assert list(found.leaks) == list(found.scores) == ATTACKS
    assert found.refuted == []
    for name, leak in found.leaks.items():
        assert curve.auc() - 0.06 < leak.auc < curve.auc() + 0.02, name
        assert leak.tpr.lower < curve.power(0.01), name
        assert 2.0 < leak.proved.epsilon < curve.epsilon(1e-5), name
        assert leak.proved.canaries == TARGETS * RECORDS
    low = worst_case.gaussian(MU / 4)
    for leak in found.leaks.values():
        assert auditing.one_run_curve_p_value(low, *leak.proved[1:4]) < 0.01


@pytest.mark.slow
def test_campaign():
    check_campaign()


def test_violation_is_told():
    """A training with a quarter of the noise that is claimed."""
    found = run(worst_case.gaussian(MU / 4))
    assert found.refuted == ATTACKS
    assert "REFUTED by loss threshold (p = " in str(found).replace("\n", " ")


@pytest.mark.slow
def test_targets_coins_are_their_own():
    """Fair, and the same whatever the shadows; those have every record in exactly half of them."""
    found = run(None, shadows=4)
    np.testing.assert_array_equal(found.member, run(None, shadows=6).member)
    assert abs(found.member.mean() - 0.5) < 4 * 0.5 / np.sqrt(found.member.size)
    counts = found.member.sum(0)  # a balanced design would have no spread
    assert abs(counts.var() - TARGETS / 4) < 0.5
    seen = _balanced(jax.random.key(0), 10, 50)
    np.testing.assert_array_equal(seen.sum(0), np.full(50, 5))
    assert len(np.unique(np.asarray(seen), axis=1).T) > 40


def test_nothing_is_seen_where_nothing_is_said():
    """The design itself tells no attack who was in."""
    found = run(worst_case.gaussian(0.01), shadows=4,
                train=lambda key, data, member: noisy_sum(key, data, 0 * member))  # fmt: skip
    for leak in found.leaks.values():
        assert abs(leak.auc - 0.5) < 4 / np.sqrt(6 * TARGETS * RECORDS)
    assert found.refuted == []


@pytest.mark.slow
def test_models_in_batches_are_the_same():
    sizes = 1, 5, 1000
    one, *others = (run(None, shadows=4, batch_size=size) for size in sizes)
    for other in others:
        for name in ATTACKS:
            np.testing.assert_allclose(one.scores[name], other.scores[name], rtol=1e-9)


@pytest.mark.slow
def test_pairs_of_several_targets_are_canaries_of_one_run():
    """Trainings that tell everything about all their records, but only one in twenty of them:
    (0, 0.05)-DP. Counted as independent, the pairs would refute it whenever one of them does.
    """
    claim = worst_case.approximate_dp(0.0, 0.05)
    drawn = np.random.default_rng(0)
    refuted = []
    for _ in range(200):
        member = drawn.uniform(size=(4, 100)) < 0.5
        tells = drawn.uniform(size=(4, 1)) < 0.05
        scores = np.where(tells, 10.0 * (2 * member - 1), drawn.normal(size=member.shape))
        guesses = auditing.one_run_guesses(scores.ravel(), member.ravel())
        refuted.append(auditing.one_run_curve_p_value(claim, *guesses) <= 0.05)
    assert np.mean(refuted) <= 0.05


def noisy_labels(records, dims=20):
    """Half learnable, half to be learned by heart."""
    keys = jax.random.split(jax.random.key(1), 3)
    x = jax.random.normal(keys[0], (records, dims))
    noise = 3 * jax.random.normal(keys[1], (records,))
    return {"x": x, "y": (x @ jax.random.normal(keys[2], (dims,)) + noise > 0).astype(int)}


def logits(weights, data):
    return jnp.tanh(data["x"] @ weights[0]) @ weights[1]


def overfit(key, data, member):
    keys = jax.random.split(key)
    adam = optax.adam(1e-2)
    start = jax.random.normal(keys[0], (20, 32)) / 5, jax.random.normal(keys[1], (32, 2)) / 6

    def loss(weights):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits(weights, data), data["y"])
        return jnp.sum(member * losses) / jnp.sum(member)

    def step(_, state):
        change, momentum = adam.update(jax.grad(loss)(state[0]), state[1])
        return optax.apply_updates(state[0], change), momentum

    return jax.lax.fori_loop(0, 150, step, (start, adam.init(start)))[0]


@pytest.mark.slow
def test_an_overfitted_model_and_few_shadows():
    """Shadows that saw the record tell more; from two that did not, RMIA sees more than LiRA, from
    the same answers. All lie far above the threshold where false positives are to be few.
    """
    everything = noisy_labels(800)
    data, population = (
        jax.tree.map(lambda leaf, part=part: leaf[part], everything)
        for part in (slice(400), slice(400, None))
    )
    found = attacks.campaign(
        jax.random.key(0), overfit,
        lambda weights, data: attacks.confidence(logits(weights, data), data["y"]),
        data, population, shadows=4, targets=8,
        features=lambda data: jnp.column_stack([data["x"], data["y"]]),
    )  # fmt: skip
    assert list(found.leaks) == [*ATTACKS, "quantile regression"]
    auc = {name: leak.auc for name, leak in found.leaks.items()}
    tpr = {name: leak.tpr.estimate for name, leak in found.leaks.items()}
    assert auc["offline RMIA"] > auc["offline LiRA"] > auc["loss threshold"] > 0.65
    assert tpr["offline RMIA"] > tpr["offline LiRA"] > 2 * tpr["loss threshold"]
    assert auc["online RMIA"] > auc["offline RMIA"]
    assert auc["quantile regression"] > 0.65
    assert tpr["online RMIA"] > 5 * tpr["loss threshold"]
    assert all(leak.proved.epsilon > 0.5 for leak in found.leaks.values())


def made(refuted=False, curve=None):
    """A campaign of one attack, without any training."""
    drawn = np.random.default_rng(0)
    member = drawn.uniform(size=(2, 100)) < 0.5
    scores = drawn.normal(size=(2, 100)) + member
    proved = auditing.OneRun(1.2378, 20, 20, 200, 0.9)
    leak = campaign_report.Leak(0.76543, auditing.Rate(0.2, 0.12345, 0.34567, True), proved,
                                0.00123 if refuted else 0.5, refuted)
    return attacks.Campaign({"online RMIA": scores}, member, {"online RMIA": leak}, 16, curve,
                            1e-5, 0.01, 0.95)  # fmt: skip


def check_rows():
    """Bounds are rounded to their side: lower ones of this run down, upper ones of the claim up."""
    (row, worst) = made(curve=worst_case.gaussian(1.0)).rows()
    assert row == ("online RMIA", "0.765", "0.200 [0.123, 0.346]", ">= 1.23")
    assert worst == ("worst case, as claimed", "<= 0.761", "<= 0.0924", "<= 4.38")
    assert len(made().rows()) == 1


def check_lines():
    """No number is passed off as a guarantee."""
    text = " ".join(made().lines())
    assert "100 records, each in or out of 2 target models" in text
    assert "lower bound of what this training leaks" in text
    assert "95% confidence" in text
    assert "no guarantee" in text
    assert "as independent" in text
    assert "claimed" not in text
    curve = worst_case.gaussian(1.0)
    assert "is not refuted" in made(curve=curve).lines()[-1]
    assert "REFUTED by online RMIA (p = 0.0013)" in made(True, curve).lines()[-1]


def check_refuted():
    assert made().refuted == []
    assert made(True).refuted == ["online RMIA"]


def test_what_is_told():
    check_rows()
    check_lines()
    check_refuted()
    table = str(made(True, worst_case.gaussian(1.0))).split("\n")
    columns = [cell.strip() for cell in table[0].split("|")[1:-1]]
    assert columns == ["attack", "AUC", "TPR at FPR 0.01", "epsilon at delta 1e-05"]
    assert table[1].startswith("|---")
    assert max(map(len, table)) <= 96
    assert "\n".join(table).isascii()


def check_plot():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "roc.png"
        made(curve=worst_case.gaussian(1.0)).plot(path)
        assert path.exists()
        assert path.read_bytes()[:4] == b"\x89PNG"


def test_plot():
    pytest.importorskip("matplotlib")
    check_plot()


def test_plot_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"jaxpriv\[plots\]"):
        made().plot(tmp_path / "roc.png")


def blown_up(key, data, member):
    return noisy_sum(key, data, member) / 0.0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": 0}, "key = 0 is not a JAX key"),
        ({"shadows": 5}, "shadows = 5; accepted: an even number"),
        ({"shadows": 2}, "shadows = 2"),
        ({"targets": 0}, "targets = 0"),
        ({"targets": 10**5}, "targets times records"),
        ({"fpr": 0.0}, "fpr = 0.0"),
        ({"delta": 1.0}, "delta = 1.0"),
        ({"confidence": 95}, "confidence = 95"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"data": {"x": np.zeros(3), "y": np.zeros(4)}}, "data has leaves of lengths"),
        ({"population": np.zeros(0)}, "population has leaves of lengths"),
        ({"population": {}}, "population has leaves of lengths"),
        ({"answer": lambda released, data: released}, "answer gives shapes"),
        ({"train": blown_up}, "answer on data is not finite for model 0"),
    ],
)
def test_errors(change, match):
    data = jnp.arange(RECORDS + OTHERS)
    given = {"key": jax.random.key(0), "train": noisy_sum, "answer": coordinate,
             "data": data[:RECORDS], "population": data[RECORDS:], "shadows": 4}  # fmt: skip
    with pytest.raises(ValueError, match=match):
        attacks.campaign(**{**given, **change})
