"""Compiled programs kept on disk: a command that was run before neither traces nor compiles again."""

import hashlib
import os
import pickle
import platform
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.compilation_cache import compilation_cache
from jax.experimental.serialize_executable import deserialize_and_load, serialize

import jaxpriv


def run(folder, jobs):
    """[function(*arguments) for (function, *arguments) in jobs] in float64, each one program that `folder` keeps.

    Args:
        folder: a directory of this user's own, made if absent. Whoever can write there can run code: entries are pickles.
        jobs: tuples of a module-level function and its arguments, pytrees of numbers; equal shapes share a program.

    What cannot be read there is compiled; what cannot be written is not kept.
    """
    jobs = [(function, jax.tree.map(jnp.asarray, arguments)) for function, *arguments in jobs]
    keys = [_key(*job) for job in jobs]
    unique = dict(zip(keys, jobs))
    with _all_compiled_here(), ThreadPoolExecutor() as pool:  # XLA compiles and links outside the interpreter's lock
        found = pool.map(partial(_program, Path(folder)), unique.items())
        programs = dict(zip(unique, found))
    return [programs[key](*arguments) for key, (_, arguments) in zip(keys, jobs)]


@contextmanager
def _all_compiled_here():
    """JAX's own cache set aside: a program that XLA has loaded from there loses functions when it is written out again."""
    before = jax.config.values["jax_enable_compilation_cache"]
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()  # else it goes by the setting that it saw first
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def _renewed(function):
    """The function as JAX has never seen it: what it compiled, or loaded, for the other is not taken."""

    @wraps(function)
    def renewed(*arguments):
        return function(*arguments)

    return renewed


def _key(function, arguments):
    """A hash of all that a program depends on: sources, versions, settings, device, structure and shapes."""
    device = jax.devices()[0]
    leaves, structure = jax.tree.flatten(arguments)
    parts = [jax.__version__, jaxlib.__version__, device.client.platform_version, device.device_kind, _processor(),
             os.environ.get("XLA_FLAGS"), jax.config.values["jax_disable_most_optimizations"], function.__module__,
             function.__qualname__, structure, [(leaf.shape, leaf.dtype) for leaf in leaves]]
    digest = hashlib.sha256(repr(parts).encode())
    for source in sorted(Path(jaxpriv.__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return f"{function.__name__}-{digest.hexdigest()}"


def _processor():
    """What the processor is able to do: a program for one with more instructions would not run here."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.uname()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


def _program(folder, item):
    key, (function, arguments) = item
    path = folder / key
    try:
        return deserialize_and_load(*pickle.loads(path.read_bytes()))
    except Exception:  # absent, cut off, of another build: whatever it is, compiling is the answer
        with jax.enable_x64(True):  # the setting belongs to a thread
            program = jax.jit(_renewed(function)).lower(*arguments).compile()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(pickle.dumps(serialize(program)))
        os.replace(file.name, path)
    except OSError:
        pass  # a full or read-only disk costs time only
    return program
