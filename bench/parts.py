"""Memory of a device where parameters are split over a mesh's second axis, against whole ones.

    python bench/parts.py [--devices 8] [--width 512] [--bands 4]

A step of DP-SGD with Adam and banded noise on the transformer of `bench/ghost.py` (1.05e7
parameters, ghost clipping, one example of a device at once), compiled for as many virtual devices
and not run. JSON lines, in MiB for one device: `state`, what it holds between steps (parameters,
Adam's moments, the noise of earlier steps), and `step`, what the program needs besides: each step
gathers whole parameters. With 8 devices parts took 0.125 and 0.62 of what whole ones did.
"""

import argparse
import json
import os
from types import SimpleNamespace

MIB = 2**20


def measured(devices, parts, width, bands):
    import ghost
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax
    from jax.sharding import NamedSharding

    from jaxpriv import correlated
    from jaxpriv.training import sharding
    from jaxpriv.training.clipping_settings import Clipping
    from jaxpriv.training.step import fresh_state, make_step

    length = 16
    loss, parameters = ghost.model_of(width, length)
    noise = correlated.banded_toeplitz(0.5 ** np.arange(bands))
    # of a `Plan` what a step reads: planning is not what is measured
    plan = SimpleNamespace(dim=sum(jnp.size(leaf) for leaf in jax.tree.leaves(parameters)),
                           noise_multipliers=(1.0,), strategy=noise, whole_numbers=False,
                           batch_size=float(devices))
    optimizer = optax.adam(1e-3)
    mesh = sharding.data_mesh(np.reshape(jax.devices(), (-1, parts)))
    step = jax.jit(make_step(lambda values, row, key: loss(values, row, key), optimizer, plan, mesh,
                             Clipping(ghost=True), at_once=1), donate_argnums=0)

    def put(leaf, spec):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    state = jax.eval_shape(lambda tree: fresh_state(tree, optimizer, plan), parameters)
    state = jax.tree.map(lambda leaf: put(leaf, sharding.part_spec(leaf.shape, mesh)), state)
    rows = put(jnp.zeros((devices, length + 1), jnp.int32), sharding.SPLIT)
    mask = put(jnp.ones(devices, bool), sharding.SPLIT)
    found = step.lower(state, jax.random.key(0), jax.random.key(1), rows, mask,
                       jnp.zeros(0, jnp.int32)).compile().memory_analysis()
    return found.argument_size_in_bytes, found.temp_size_in_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--bands", type=int, default=4)
    given = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={given.devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    whole = measured(given.devices, 1, given.width, given.bands)
    split = measured(given.devices, given.devices, given.width, given.bands)
    for name, (state, step) in (("whole", whole), ("parts", split)):
        print(json.dumps({"parameters": name, "devices": given.devices,
                          "state": round(state / MIB, 1), "step": round(step / MIB, 1)}))
    print(json.dumps({"parts over whole": {"state": round(split[0] / whole[0], 3),
                                           "step": round(split[1] / whole[1], 3)}}))


if __name__ == "__main__":
    main()
