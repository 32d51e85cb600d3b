"""Attacks: GLiR against plain NumPy and SciPy, whitening against the dimension, games per second,
a million parameters.

    python bench/attacks.py [--repeats 3] [--million]

Both sides of a ratio run in one process on the same arrays; medians of `repeats`, the first call
(which compiles) not counted. The SciPy side is tests/attacks/oracles.py: an inverse, and
`scipy.stats.ncx2.logcdf` in a loop, on the same reference moments. --million: 1e6 parameters, 1000
references, 1000 queries in float32, in a process of its own whose largest resident set is shown.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from timing import median_seconds

BATCH = 64


def gradients(random, n, d):
    return random.normal(size=(n, d)) * np.geomspace(0.3, 3, d) + 0.1


def tell(**row):
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value
             for key, value in row.items()}
    print(json.dumps(shown), flush=True)


def against_scipy(repeats):
    """1000 queries, known moments; the gap is relative,
    of scores where SciPy's are finite and below 300.
    """
    import jax

    from jaxpriv.attacks import glir, reference
    from tests.attacks import oracles

    random = np.random.default_rng(0)
    for d in (650, 7850):
        queries = gradients(random, 1000, d)
        mean, covariance = np.full(d, 0.1), np.diag(np.geomspace(0.3, 3, d) ** 2)
        release = gradients(random, BATCH, d).mean(0)
        found = {}

        def factor(mean=mean, covariance=covariance):
            return jax.block_until_ready(reference.known(mean, covariance))

        def inverse(covariance=covariance):
            return oracles.precision(covariance, BATCH)

        law, matrix = factor(), inverse()

        def ours(release=release, queries=queries, law=law):
            return np.asarray(glir(release, queries, law, BATCH))

        def theirs(release=release, queries=queries, mean=mean, matrix=matrix):
            return oracles.glir_of(release, queries, mean, matrix)

        right, found = theirs(), ours()
        here = np.isfinite(right) & (right < 300)
        gap = np.max(np.abs(found - right)[here] / np.maximum(right[here], 1))
        pairs = (
            ("reference statistics: factor, inverse", factor, inverse),
            ("GLiR, 1000 queries", ours, theirs),
        )
        for what, mine, other in pairs:
            spent = median_seconds(mine, repeats), median_seconds(other, repeats)
            tell(what=what, d=d, ours=spent[0], scipy=spent[1], ratio=spent[1] / spent[0])
        tell(what="equal scores, largest gap", d=d, gap=float(gap), of=int(here.sum()))


def whitening(repeats):
    """Reference statistics of 1000 gradients and the distances of 1000 queries, in float32."""
    import jax

    from jaxpriv.attacks import covariance, reference

    random = np.random.default_rng(0)
    for d in (1000, 3000, 10_000, 30_000, 100_000):
        data, queries = (jax.numpy.asarray(gradients(random, 1000, d), "float32") for _ in range(2))

        def estimate(data=data):
            return jax.block_until_ready(reference.estimate(data, "low_rank"))

        law = estimate()

        def score(queries=queries, law=law):
            return jax.block_until_ready(covariance(queries[0], queries, law, BATCH))

        tell(what="whitening, 1000 references", d=d, estimate=median_seconds(estimate, repeats),
             score_1000=median_seconds(score, repeats))


def games(repeats):
    """Rounds per second of the fixed-target game, normal records."""
    import jax

    from jaxpriv.attacks import covariance, reference
    from jaxpriv.attacks.games import fixed_target

    for d, n in ((100, 100), (1000, 100), (5000, 1000)):
        rounds = 20_000_000 // (d * n)
        law, target = reference.known(np.zeros(d), np.ones(d)), jax.numpy.ones(d)

        def draw(key, count, d=d):
            return jax.random.normal(key, (count, d))

        def score(mean, target=target, law=law, n=n):
            return covariance(mean, target[None], law, n)[0]

        def play(n=n, target=target, draw=draw, score=score, rounds=rounds):
            played = fixed_target(
                jax.random.key(0), lambda key, data: data.mean(0), draw, n, target, score, rounds
            )
            jax.block_until_ready(played)

        spent = median_seconds(play, repeats)
        tell(what="fixed-target game", d=d, n=n, rounds=rounds, seconds_with_compilation=spent,
             rounds_per_second=rounds / spent)


def million():
    """Everything from chunks of gradients to GLiR scores."""
    import jax

    from jaxpriv.attacks import glir, reference

    d, n = 1_000_000, 1000
    random = np.random.default_rng(0)

    def chunk(rows):
        return random.standard_normal((rows, d), dtype=np.float32)

    start = time.perf_counter()
    release = chunk(BATCH).mean(0)
    drawn = 0.0

    def chunks():
        nonlocal drawn
        for _ in range(n // 50):
            before = time.perf_counter()
            rows = chunk(50)
            drawn += time.perf_counter() - before
            yield rows

    law = reference.estimate(chunks())
    built = time.perf_counter() - start - drawn
    start, drawn = time.perf_counter(), 0.0
    scores = np.concatenate(
        [jax.block_until_ready(glir(release, rows, law, BATCH)) for rows in chunks()]
    )
    scored = time.perf_counter() - start - drawn
    assert scores.shape == (n,)
    assert np.all(np.isfinite(scores))
    tell(what="1e6 parameters, 1000 references, 1000 queries", estimate=built, score=scored,
         total=built + scored, peak_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--million", action="store_true")
    arguments = parser.parse_args()
    if arguments.million:
        million()
        return
    subprocess.run([sys.executable, __file__, "--million"], check=True)
    whitening(arguments.repeats)
    import jax

    jax.config.update("jax_enable_x64", True)
    against_scipy(arguments.repeats)
    games(arguments.repeats)


if __name__ == "__main__":
    main()
