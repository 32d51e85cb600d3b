"""Test settings: float64 everywhere (float32 tests pass float32 arrays),
and hypothesis without randomness.
"""

import gc
import os
import secrets

import hypothesis
import jax
import pytest

from tests.command import ROOT
from tests.compiling import compile_fast, optimize
from tests.parts import deal

compile_fast()
# test processes have a core each, and threads of a product of matrices wait for each other by
# spinning; NumPy is told where it is loaded after this, in other processes
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# a traced program is a million objects that live: looking through them costs a twentieth of all
gc.set_threshold(50_000, 20, 50)
jax.config.update("jax_enable_x64", True)
hypothesis.settings.register_profile("jaxpriv", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("jaxpriv")


# drawn before other test processes start, which inherit it; .ci/run names the commit's own
os.environ.setdefault("ADVERSARY_SEED", str(secrets.randbelow(10**9)))


def pytest_addoption(parser):
    parser.addoption("--part", default="1/1", metavar="K/N",
                     help="of the chosen tests, every N-th from the K-th on")  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """After -m has chosen: a file's tests, which may take minutes, are dealt to all parts."""
    items[:], others = deal(items, config.getoption("--part"))
    config.hook.pytest_deselected(items=others)


def pytest_report_header():
    return f"ADVERSARY_SEED={os.environ['ADVERSARY_SEED']} (tests/adversary)"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """As users compile: tests of what the optimizer may change, and those that run for long."""
    optimize(any(item.get_closest_marker(name) for name in ("optimized", "long")))


@pytest.fixture(scope="session", autouse=True)
def _share_programs(tmp_path_factory, worker_id):
    """What took long to compile in one test process is read by the others;
    .ci/run names one folder for all its runs.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        base = tmp_path_factory.getbasetemp()
        jax.config.update(
            "jax_compilation_cache_dir",
            str((base if worker_id == "master" else base.parent) / "xla"),
        )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Thousands of compiled programs otherwise stay in the memory of a test
    process: 3 GB at the end.
    """
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """For commands: one cache of compiled programs for all processes of a file, which are compiled
    as those of most tests, and a terminal wide enough.
    """
    cache = tmp_path_factory.mktemp("cache")
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "100", "PYTHONPATH": str(ROOT),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
