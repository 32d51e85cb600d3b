"""A small training on as many devices as there are:
`python -m tests.training.sharded FILE [PROCESS COUNT PORT FOLDER]`.
"""

import sys

import jax
import numpy as np

from tests.compiling import compile_fast
from tests.training.problems import data, quiet, trainer


def train(folder=None, noisy=True):
    made = trainer(microbatch=4)
    plan = made.plan(200) if noisy else quiet()
    return made.fit(
        data(), seed=7, plan=plan, canaries=5, folder=folder, record_releases=folder is None
    )


if __name__ == "__main__":
    compile_fast()
    if len(sys.argv) > 2:
        process, count, port, folder = sys.argv[2:]
        # 8< what a user adds for several hosts: nothing but this line
        jax.distributed.initialize(f"localhost:{port}", int(count), int(process))
        found = train(folder)
        assert jax.process_count() == int(count)
    else:
        found = train()
    np.savez(sys.argv[1], model=np.asarray(found.model),
             releases=np.zeros(0) if found.releases is None else found.releases,
             scores=found.canary_scores, members=found.canary_members, devices=len(jax.devices()),
             epsilon=found.epsilon, spent=found.spent)
