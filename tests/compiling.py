"""What tests tell XLA."""

import os
from importlib.metadata import version

_FUSION_EMITTERS_FLAG_IN = ("0.8.", "0.9.", "0.10.")


def compile_fast():
    """Tell XLA, before it starts, to leave out what takes it most of the time; what is computed stays the same."""
    flags = os.environ.get("XLA_FLAGS", "")
    if version("jaxlib").startswith(_FUSION_EMITTERS_FLAG_IN) and "fusion_emitters" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false"  # three times slower to compile than without
