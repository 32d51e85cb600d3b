"""Every sampler draws by the law that its curve is of, and says so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxpriv import correlated, training, worst_case
from jaxpriv.training import sampling
from jaxpriv.training.draws import Draws, in_sequence, physical_batch
from jaxpriv.training.sampling import uniform
from tests.slips import check_is_red

N, BATCH = 24, 6
KINDS = {
    "poisson": sampling.Poisson(),
    "cut_poisson": sampling.CutPoisson(7),
    "fixed_size": sampling.FixedSize(),
    "balls_in_bins": sampling.BallsInBins(),
    "cyclic_poisson": sampling.CyclicPoisson(3),
    "shuffled": sampling.Shuffled(),
    "in_order": sampling.InOrder(),
}


def plan_of(sampler, steps=12, **changes):
    return training.Plan(N, BATCH, (1.0,) * steps, 5, sampler=sampler, **changes)


def part(sampler, runs=1500, steps=12, seed=0):
    """`Bool["runs steps records"]`: who takes part, in independent runs."""
    plan = plan_of(sampler, steps)
    draws = Draws(plan, np.ones(N, bool), physical_batch(plan, N, 1, None)[0])
    period = draws.period

    def run(key):
        def of_step(step):
            found = draws.draw(key, step, draws.drawn(key, step // period))
            taken = jnp.zeros(N, jnp.int32).at[found.indices].add(found.mask)
            return taken, found.overflow

        return jax.vmap(of_step)(jnp.arange(steps))

    taken, overflow = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(seed), runs))
    assert not np.any(overflow)
    assert np.max(taken) == 1  # nobody twice in one batch
    return np.asarray(taken, bool)


def check_rates(name):
    """Each record in each step as often as accounted, cut batches aside: there no more often."""
    taken = part(KINDS[name])
    runs = len(taken)
    rate = BATCH / N
    if name == "cut_poisson":
        sizes = scipy.stats.binom(N, rate)
        rate = float(np.sum(np.minimum(np.arange(N + 1), 7) * sizes.pmf(np.arange(N + 1)))) / N
    counts = taken.sum(0)
    deviation = np.abs(counts - runs * rate) / np.sqrt(runs * rate * (1 - rate))
    assert deviation.max() < 5.2


@pytest.mark.parametrize("name", KINDS)
def test_rates(name):
    check_rates(name)


def check_pairs(name):
    """Two records in one step, and one record in two steps, as the law has it."""
    taken = part(KINDS[name])
    runs, steps, rate = len(taken), 12, BATCH / N
    together = np.mean(taken[:, :, 0] & taken[:, :, 1])
    want = {"poisson": rate**2, "fixed_size": BATCH * (BATCH - 1) / (N * (N - 1)),
            "balls_in_bins": rate**2, "cyclic_poisson": rate**2,
            "shuffled": rate * (BATCH - 1) / (N - 1), "in_order": rate * (BATCH - 1) / (N - 1)}
    if name in want:
        each = taken[:, :, 0] & taken[:, :, 1]
        assert abs(together - want[name]) < 5 * each.mean(1).std() / np.sqrt(runs) + 1e-12
    epochs = taken.reshape(runs, 3, 4, N)
    if name in ("balls_in_bins", "shuffled", "in_order"):
        assert np.all(epochs.sum(2) == 1)  # once in each epoch
    again = np.mean(np.all(epochs[:, 0] == epochs[:, 1], 1))
    if name in ("balls_in_bins", "shuffled"):
        assert abs(again - rate) < 0.02  # dealt anew
    if name == "in_order":
        assert again == 1
    if name == "cyclic_poisson":
        turns = taken.reshape(runs, 4, 3, N).any(1)
        assert np.all(turns.sum(1) <= 1)  # in one group's steps alone
    if name in ("poisson", "cut_poisson", "fixed_size"):
        both = np.mean(taken[:, 0] & taken[:, 1], 0) - np.mean(taken[:, 0], 0) ** 2
        assert np.abs(both).max() < 5 * rate / np.sqrt(runs)
    sizes = taken.sum(2)
    if name in ("fixed_size", "shuffled", "in_order"):
        assert np.all(sizes == BATCH)
    if name == "cut_poisson":
        assert sizes.max() == 7
        full = taken[sizes == 7]
        drawn = full.mean(0)  # of a batch that is full nobody is kept rather than others
        assert np.abs(drawn - 7 / N).max() < 5 * np.sqrt(7 / N / len(full))
    assert steps == taken.shape[1]


@pytest.mark.parametrize("name", KINDS)
def test_pairs(name):
    check_pairs(name)


def test_the_slices_of_the_last_batch():
    """Where the batch size does not divide the records, all have their turn all the same."""
    plan = training.Plan(23, 6, (1.0,) * 8, 5, sampler=sampling.Shuffled())
    draw = in_sequence(Draws(plan, np.ones(23, bool), 6))
    for start in (0, 4):
        some = [draw(jax.random.key(0), step) for step in range(start, start + 4)]
        seen = np.concatenate([np.asarray(s.indices)[np.asarray(s.mask)] for s in some])
        assert sorted(seen) == list(range(23))


def test_bins_are_uniform():
    """64 bits modulo the number of bins, by NumPy's own numbers of 64 bits."""
    found = np.asarray(jax.jit(uniform.bins, static_argnums=(1, 2))(jax.random.key(3), 70_000, 7))
    assert found.dtype == np.int32
    assert scipy.stats.chisquare(np.bincount(found, minlength=7)).pvalue > 1e-4
    words = np.asarray(jax.random.bits(jax.random.key(3), (2, 70_000), jnp.uint32), np.uint64)
    np.testing.assert_array_equal(found, (words[0] << np.uint64(32) | words[1]) % np.uint64(7))
    assert uniform.bins_unlike(7) < 1e-18


def test_orders_are_uniform():
    """All permutations of four as often, and a mask's others last."""
    keys = jax.random.split(jax.random.key(4), 24_000)
    found = np.asarray(jax.vmap(lambda key: uniform.order(key, jnp.arange(4)))(keys))
    counts = np.unique(found @ [1, 4, 16, 64], return_counts=True)[1]
    assert len(counts) == 24
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    mask = jnp.array([True, False, True, False])
    first = np.asarray(uniform.order(jax.random.key(5), jnp.arange(4), mask))
    assert set(first[:2]) == {0, 2}


def check_limit_records():
    """The first records of each user, in order, whatever the others have."""
    random = np.random.default_rng(0)
    users = random.integers(0, 20, 300)
    kept = training.limit_records(users, 3)
    want = [i for i in range(300) if np.sum(users[:i] == users[i]) < 3]
    np.testing.assert_array_equal(kept, want)
    names = np.array([f"user {u}" for u in users])
    np.testing.assert_array_equal(training.limit_records(names, 3), want)


def test_limit_records():
    check_limit_records()


CURVES = {
    "poisson": lambda s, t: worst_case.subsampled_gaussian(s, BATCH / N, t),
    "fixed_size": lambda s, t: worst_case.subsampled_gaussian(
        s, BATCH / (N - 1), t, sampling="fixed_size"),
    "cyclic_poisson": lambda s, t: worst_case.subsampled_gaussian(s, 3 * BATCH / N, -(-t // 3)),
    "balls_in_bins": lambda s, t: worst_case.random_allocation(s, 4, epochs=-(-t // 4)),
    "shuffled": lambda s, t: worst_case.shuffled_gaussian(s, 4, -(-t // 4)),
    "in_order": lambda s, t: worst_case.gaussian(np.sqrt(-(-t // 4)) / s),
}


def check_curves(name, steps):
    """The curve of a plan is the one of its sampler, after any number of steps."""
    found = plan_of(KINDS[name]).curve(steps=steps).delta(1.0)
    want = CURVES[name](1.0, steps).symmetric().delta(1.0)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("name", CURVES)
def test_curves(name):
    # several epochs of balls in bins take seconds
    for steps in (1, 4) if name == "balls_in_bins" else (1, 7, 12):
        check_curves(name, steps)


@pytest.mark.slow
def test_curves_of_epochs():
    check_curves("balls_in_bins", 7)


def test_cut_batches_take_the_worse_of_both_sizes():
    found = plan_of(KINDS["cut_poisson"]).curve().delta_bounds(1.0)
    for size in (N, N + 1):
        one = worst_case.truncated_gaussian(1.0, BATCH / N, 12, size, 7).symmetric()
        assert found[1] >= one.delta_bounds(1.0)[0]
    assert found[1] <= 1.01 * max(
        worst_case.truncated_gaussian(1.0, BATCH / N, 12, size, 7).symmetric().delta(1.0)
        for size in (N, N + 1)
    )


def test_users():
    """Poisson samples have the curve of users; others the group's."""
    found = plan_of(KINDS["poisson"], records_per_user=3).curve()
    want = worst_case.user_level(1.0, BATCH / N, 12, 3).symmetric()
    np.testing.assert_allclose(found.delta(3.0), want.delta(3.0), rtol=1e-9)
    found = plan_of(KINDS["in_order"], records_per_user=3).curve()
    np.testing.assert_allclose(found.gdp_mu(), 3 * np.sqrt(3.0), rtol=1e-9)
    assert plan_of(KINDS["in_order"], records_per_user=3).protects == ("zero_out", "user", 1)
    for name in ("cut_poisson", "fixed_size"):
        with pytest.raises(ValueError, match="records_per_user = 3"):
            plan_of(KINDS[name], records_per_user=3)


@pytest.mark.slow
def test_dirac_canaries_take_part_as_records_do():
    """Those in the data, by the sampler's own law; those outside never."""
    members = np.array([True, False, True, True])
    for name in ("poisson", "shuffled", "balls_in_bins", "fixed_size"):
        size = N + 4
        plan = training.Plan(size, BATCH, (1.0,) * 400, 5, sampler=KINDS[name])
        rows = physical_batch(plan, size, 1, None)[0]
        draw = in_sequence(Draws(plan, np.ones(N, bool), rows, members))
        found = [draw(jax.random.key(1), step) for step in range(400)]
        counts = np.sum([np.asarray(f.canaries) for f in found], 0)
        assert counts[1] == 0
        rate = BATCH / size if name != "balls_in_bins" else 1 / 5
        assert np.all(np.abs(counts[[0, 2, 3]] - 400 * rate) < 5 * np.sqrt(400 * rate))
        for f in found:  # no row of padding or of a canary is a record's
            assert np.asarray(f.mask).sum() + np.asarray(f.canaries).sum() <= len(f.mask)
            assert len(set(np.asarray(f.indices)[np.asarray(f.mask)])) == np.asarray(f.mask).sum()


@pytest.mark.parametrize("name", ["fixed_size", "cut_poisson", "shuffled"])
def test_absent_canaries_keep_their_places(name):
    """Records are drawn as often as the plan says, however many canaries came in."""
    size, plan = N + 16, training.Plan(N + 16, BATCH, (1.0,) * 600, 5, sampler=KINDS[name])
    rows = physical_batch(plan, size, 1, None)[0]
    for dirac in (True, False):
        present = np.ones(N, bool) if dirac else np.append(np.ones(N, bool), np.zeros(16, bool))
        members = np.zeros(16, bool) if dirac else ()
        draw = in_sequence(Draws(plan, present, rows, members))
        found = [draw(jax.random.key(5), at) for at in range(600)]
        seen = np.concatenate([np.asarray(f.indices)[np.asarray(f.mask)] for f in found])
        assert seen.max() < N
        counts = np.bincount(seen, minlength=N)
        assert abs(counts.mean() - 600 * BATCH / size) < 5 * np.sqrt(600 * BATCH / size / N)


def test_a_users_canary_takes_part_as_often_as_a_user():
    plan = training.Plan(N, BATCH, (1.0,) * 300, 5, records_per_user=4)
    rows = physical_batch(plan, N + 8, 1, None)[0]
    draw = in_sequence(Draws(plan, np.ones(N, bool), rows, np.array([True, True])))
    counts = np.array([np.asarray(draw(jax.random.key(2), step).canaries) for step in range(300)])
    assert counts.max() > 1
    assert abs(counts.mean() - 4 * BATCH / N) < 0.15


def test_settings_come_back():
    for sampler in KINDS.values():
        assert sampling.sampler_of(sampler.settings()) == sampler
        plan = plan_of(sampler)
        assert sampler.describe(plan) == plan.sampling
        assert plan.adjacency.startswith("zero out" if sampler.change == "zero_out" else "add")


@pytest.mark.parametrize(
    ("make", "words"),
    [(lambda: sampling.sampler_of({"name": "lottery"}), "sampler = 'lottery'"),
     (lambda: sampling.sampler_of({"name": "cut_poisson"}), "takes largest_batch; got none"),
     (lambda: sampling.sampler_of({"name": "poisson", "cycle": 2}), "got cycle"),
     (lambda: sampling.CutPoisson(0), "largest_batch = 0"),
     (lambda: sampling.CyclicPoisson(1.5), "cycle = 1.5"),
     (lambda: plan_of(sampling.CyclicPoisson(5)), "cycle = 5"),
     (lambda: plan_of("poisson"), "sampler = 'poisson'"),
     (lambda: training.Plan(N, 5.5, (1.0,), 5, sampler=sampling.FixedSize()), "is not whole"),
     (lambda: training.Plan(N, N, (1.0,), 5, sampler=sampling.FixedSize()), "batch_size = 24"),
     (lambda: training.Plan(N, 6, (1.0, 2.0), 5, sampler=sampling.Shuffled()), "2 different"),
     (lambda: plan_of(sampling.Poisson(), strategy=correlated.banded_square_root(2)),
      "correlated noise with poisson"),
     (lambda: plan_of(sampling.CyclicPoisson(3), strategy=correlated.banded_square_root(4)),
      "band"),
     (lambda: plan_of(sampling.InOrder()).curve("relaxed"), "threat_model = 'relaxed'"),
     (lambda: training.limit_records([1, 2], 0), "most = 0"),
     (lambda: training.limit_records([[1], [2]], 1), "users has shape"),
     (lambda: training.limit_records([1.0, np.nan], 1), "missing"),
     (lambda: training.limit_records([None, None, "a"], 1), "missing")],
)
def test_hostile(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("name", ["balls_in_bins", "shuffled"])
def test_a_sampler_that_deals_once_is_seen(name, monkeypatch):
    """Epochs that are dealt like the first one."""
    monkeypatch.setattr(type(KINDS[name]), "period", lambda self, plan: plan.steps)
    with pytest.raises(AssertionError):
        check_pairs(name)


def test_a_cut_that_keeps_the_first_is_seen(monkeypatch):
    from jaxpriv.training.sampling import each_step

    def first(key, batch, rows):
        return batch._replace(indices=batch.indices[:rows], mask=batch.mask[:rows])

    check_is_red(monkeypatch, each_step, "some_of", first, lambda: check_pairs("cut_poisson"))
