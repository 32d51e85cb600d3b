"""A run that may be killed at any time: `python -m tests.training.killed FOLDER` starts it,
or goes on with it.
"""

import sys
import time

import jax

from jaxpriv.training.run import unspent
from tests.compiling import compile_fast
from tests.training.problems import data, trainer

STEPS = 60


def train(folder):
    def evaluate(model):
        if folder is not None:
            print("step", flush=True)
        time.sleep(0.01)
        return {"length": float(abs(model).sum())}

    made = trainer(steps=STEPS)
    resume = folder is not None and not unspent(folder)
    return made.fit(data(), seed=11, folder=folder, resume=resume, evaluate=evaluate,
                    evaluate_every=1, checkpoint_every=3, canaries=3)


if __name__ == "__main__":
    compile_fast()
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    train(sys.argv[1])
    print("done", flush=True)
