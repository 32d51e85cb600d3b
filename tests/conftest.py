"""Test settings: float64 everywhere (float32 tests pass float32 arrays), and hypothesis without randomness."""

import hypothesis
import jax

jax.config.update("jax_enable_x64", True)
hypothesis.settings.register_profile("jaxpriv", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("jaxpriv")
