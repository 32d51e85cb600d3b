"""How many canaries refute a trainer with too little noise: one run, and several methods.

    python bench/one_run_audits.py [--runs 400] [--dp-sgd]

The noise is a share of what is claimed. Every canary is in or out by its own fair coin and seen in
noise of its own (a Dirac canary, its coordinate read by the auditor); runs are simulated by
`jax.vmap`. Shown is the smallest number of canaries, in steps of a half octave, with which a claim
is refuted at 95% confidence in at least 90% of the runs, for the best of six numbers of guesses
(the same for all methods), which an auditor chooses beforehand by such a simulation.

Methods: "points, published": `one_run`'s epsilon against the claimed epsilon at delta, by the
p-value of Steinke, Nasr, Jagielski 2023; "points": by `one_run_p_value`, the same with the sharper
bound; "curve": `one_run_curve_p_value` of the whole claimed curve; "independent":
`audit(...).violation`, which takes the scores of one run for independent: that is no guarantee for
a mechanism of which the curve is all that is known. null: more than the largest number. --dp-sgd:
50 steps at rate 0.1, scored by the log likelihood ratio of each step; else one release.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from jaxpriv import auditing, worst_case
from jaxpriv.auditing import one_run_curve

DELTA, MISS, POWER = 1e-5, 0.05, 0.9
SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SIZES = tuple(2 * round(8 * 2 ** (step / 2)) for step in range(19))  # 16 ... 8192
RATE, STEPS = 0.1, 50


def release(key, canaries, noise, claimed):
    """(scores, member) of one release of sensitivity 1."""
    del claimed
    coin, other = jax.random.split(key)
    member = jax.random.bernoulli(coin, 0.5, (canaries,))
    return member + noise * jax.random.normal(other, (canaries,)), member


def dp_sgd(key, canaries, noise, claimed):
    """(log likelihood ratio under the claim, member) of steps that all are seen."""
    coin, other = jax.random.split(key)
    member = jax.random.bernoulli(coin, 0.5, (canaries,))

    def step(total, key):
        took, normal = jax.random.split(key)
        seen = member & jax.random.bernoulli(took, RATE, (canaries,))
        value = seen + noise * jax.random.normal(normal, (canaries,))
        return total + jnp.log1p(RATE * jnp.expm1((value - 0.5) / claimed**2)), None

    total, _ = jax.lax.scan(step, jnp.zeros(canaries), jax.random.split(other, STEPS))
    return total, member


def published(epsilon, delta, correct, guesses, canaries):
    """The p-value of the source's appendix D."""
    law = scipy.stats.binom.pmf(np.arange(guesses + 1), guesses, 1 / (1 + np.exp(-epsilon)))
    below = np.cumsum(law[:correct][::-1]) / np.arange(1, correct + 1)
    return law[correct:].sum() + 2 * canaries * delta * np.max(below, initial=0.0)


def methods(claim):
    """{name: is it refuted by (correct, guesses, canaries)?}."""
    epsilon = float(claim.symmetric().epsilon_bounds(DELTA)[1])
    profile = one_run_curve._Profile.of(claim, MISS / SIZES[-1])
    game = epsilon, DELTA
    return {
        "points, published": lambda *seen: published(*game, *seen) <= MISS,
        "points": lambda *seen: auditing.one_run_p_value(*game, *seen) <= MISS,
        "curve": lambda *seen: one_run_curve._by_points(profile, *seen, 2) <= MISS
        or one_run_curve._impossible(profile, *seen, 2, MISS),
    }


def refuting(scores, member, claim, open_methods):
    """The methods with which enough of these runs refute the claim, for some number of guesses:
    with as many correct ones as all but a tenth of the runs have.
    """
    m = scores.shape[1]
    found = set()
    ranked = np.take_along_axis(member, np.argsort(-scores, 1), 1)  # `one_run_guesses`, of all runs
    for guesses in sorted({2 * round(share * m / 2) for share in SHARES} - {0}):
        half = guesses // 2
        correct = np.sort(ranked[:, :half].sum(1) + (~ranked[:, -half:]).sum(1))
        least = int(correct[int((1 - POWER) * len(correct))])
        found |= {name for name, refuted in open_methods.items()
                  if refuted and name not in found and least and refuted(least, guesses, m)}
    if "independent" in open_methods:
        share = np.mean([auditing.audit(*run, thresholds=8).violation(claim).violated
                         for run in zip(scores[:50], member[:50])])
        found |= {"independent"} if share >= POWER else set()
    return found


def needed(play, noise, claimed, claim, runs):
    """{method: number of canaries, or None beyond the largest}."""
    left, found = {**methods(claim), "independent": None}, {}
    for canaries in SIZES:
        keys = jax.random.split(jax.random.key(canaries), runs)
        games = partial(play, canaries=canaries, noise=noise, claimed=claimed)
        scores, member = map(np.asarray, jax.jit(jax.vmap(games))(keys))
        usable = (member.sum(1) > 1) & ((~member).sum(1) > 1)
        for name in refuting(scores[usable], member[usable], claim, left):
            found[name] = canaries
            del left[name]
        if not left:
            break
    return {**found, **dict.fromkeys(left)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--dp-sgd", action="store_true")
    given = parser.parse_args()
    for claimed in (1.0, 0.7) if given.dp_sgd else (2.0, 1.0):
        play = dp_sgd if given.dp_sgd else release
        claim = (worst_case.subsampled_gaussian(claimed, RATE, STEPS) if given.dp_sgd
                 else worst_case.gaussian(1 / claimed))
        for share in (0.5, 0.25):
            row = needed(play, claimed * share, claimed, claim, given.runs)
            print(json.dumps({"claimed_noise": claimed, "true_noise": claimed * share, **row}),
                  flush=True)


if __name__ == "__main__":
    main()
