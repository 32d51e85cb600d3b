"""What tests tell XLA."""

import os
from importlib.metadata import version

import jax

_FUSION_EMITTERS_FLAG_IN = ("0.8.", "0.9.", "0.10.")


def compile_fast():
    """Tell XLA, before it starts, to leave out what takes it most of the time;
    what is computed stays the same.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if version("jaxlib").startswith(_FUSION_EMITTERS_FLAG_IN) and "fusion_emitters" not in flags:
        # three times slower to compile than without
        flags += " --xla_cpu_use_fusion_emitters=false"
    if "codegen_split" not in flags:
        # a process has one core: of a program in parts, made to be compiled at once, there is more
        flags += " --xla_cpu_parallel_codegen_split_count=1"
    if "disable_hlo_passes" not in flags:
        # looks after each pass whether that left a valid program: a fifth of all
        flags += " --xla_disable_hlo_passes=hlo-verifier"
    os.environ["XLA_FLAGS"] = flags
    # threads of a pool that find nothing to do look for it: a tenth of all where programs run long
    os.environ.setdefault("NPROC", "1")
    # which line an operation comes from: nobody reads it, and it takes a twentieth of tracing
    jax.config.update("jax_traceback_in_locations_limit", 0)


def optimize(wanted):
    """Whether XLA optimizes what is compiled from here on; most programs of tests run once and for
    less time than that takes."""
    jax.config.update("jax_disable_most_optimizations", not wanted)
