"""A run that may be killed at any time: `python -m tests.training.killed FOLDER CACHE KIND` starts
it, or goes on with it.
"""

import sys
import time

import jax

from jaxpriv import correlated
from jaxpriv.training import Plan, sampling
from jaxpriv.training.run import unspent
from tests.compiling import compile_fast
from tests.training.problems import data, trainer

STEPS = 60
RECORDS, DIM = 200, 5
NOISES = (1.0,) * STEPS
PLANS = {
    "independent": Plan(RECORDS, 40.0, NOISES, DIM),
    # what is kept of the noises has to go on where it stopped
    "banded": Plan(RECORDS, 40.0, NOISES, DIM, sampler=sampling.CyclicPoisson(4),
                   strategy=correlated.banded_square_root(4)),
    # one epoch, so that its batches come from one draw, and accounting is quick
    "allocation": Plan(RECORDS, RECORDS / STEPS, NOISES, DIM, sampler=sampling.BallsInBins()),
    "discrete": Plan(RECORDS, 40.0, NOISES, DIM, whole_numbers=True),
}


def made(kind):
    plan = PLANS[kind]
    return trainer(exact=True, steps=STEPS, batch_size=plan.batch_size, sampler=plan.sampler,
                   noise="discrete" if plan.whole_numbers else plan.strategy)


def train(folder, kind):
    def evaluate(model):
        if folder is not None:
            print("step", flush=True)
        time.sleep(0.01)
        return {"length": float(abs(model).sum())}

    resume = folder is not None and not unspent(folder)
    return made(kind).fit(data(), seed=11, plan=PLANS[kind], folder=folder, resume=resume,
                          evaluate=evaluate, evaluate_every=1, checkpoint_every=3, canaries=3)


if __name__ == "__main__":
    compile_fast()
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    train(sys.argv[1], sys.argv[3])
    print("done", flush=True)
