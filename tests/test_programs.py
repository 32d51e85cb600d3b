"""Compiled programs on disk: read instead of compiled, never believed when broken, not needed."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxpriv
from jaxpriv.report import Mechanism, certify, programs


def profile(curve, epsilon):
    return curve.delta(epsilon), curve.advantage()


def another(curve, epsilon):
    return curve.delta(epsilon)


ROOT = Path(__file__).parents[1]
CURVE = jaxpriv.worst_case.gaussian(1.0)
WANT = [float(CURVE.delta(0.5)), float(CURVE.advantage())]


@pytest.fixture
def compilations(monkeypatch):
    """How many programs were compiled so far: their functions' names."""
    names, jit = [], jax.jit

    def counted(function, **settings):
        names.append(function.__name__)
        return jit(function, **settings)

    monkeypatch.setattr(programs.jax, "jit", counted)
    return names


def test_a_second_run_compiles_nothing(tmp_path, compilations):
    """Equal structures and shapes share one program; other values use it, other shapes, functions or curves do not."""
    jobs = [(profile, CURVE, 0.5), (profile, jaxpriv.worst_case.gaussian(2.0), 0.1)]
    first = programs.run(tmp_path, jobs)
    assert compilations == ["profile"]
    np.testing.assert_allclose(first[0], WANT, rtol=1e-14)
    np.testing.assert_allclose(first[1][0], jaxpriv.worst_case.gaussian(2.0).delta(0.1), rtol=1e-14)
    np.testing.assert_array_equal(programs.run(tmp_path, jobs), first)
    assert compilations == ["profile"]
    programs.run(tmp_path, [(another, CURVE, 0.5), (profile, CURVE, np.ones(2)), (profile, jaxpriv.worst_case.laplace(1.0), 0.5)])
    assert sorted(compilations[1:]) == ["another", "profile", "profile"]
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("content", [b"", b"not a program", "cut"])
def test_a_broken_file_is_replaced(tmp_path, compilations, content):
    programs.run(tmp_path, [(profile, CURVE, 0.5)])
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content == "cut" else content)
    np.testing.assert_allclose(programs.run(tmp_path, [(profile, CURVE, 0.5)])[0], WANT, rtol=1e-14)
    programs.run(tmp_path, [(profile, CURVE, 0.5)])
    assert len(compilations) == 2


def test_a_place_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    np.testing.assert_allclose(programs.run(blocked / "folder", [(profile, CURVE, 0.5)])[0], WANT, rtol=1e-14)


def test_programs_are_private(tmp_path):
    programs.run(tmp_path / "new", [(profile, CURVE, 0.5)])
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "new").iterdir())


def test_sources_and_settings_are_part_of_the_key(monkeypatch):
    """A program of an older version of the package is not taken."""
    arguments = jax.tree.map(np.asarray, (CURVE, 0.5))
    before = programs._key(profile, arguments)
    assert programs._key(profile, arguments) == before
    monkeypatch.setenv("XLA_FLAGS", "--other")
    assert programs._key(profile, arguments) != before
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(programs.Path, "read_bytes", lambda self: b"changed")
    assert programs._key(profile, arguments) != before


@pytest.mark.slow
def test_the_certificate_is_the_same(tmp_path):
    mechanism = Mechanism("laplace", (1.0,), (2.0,))
    stored = certify(mechanism, 1e-5, lambda jobs: programs.run(tmp_path, jobs))
    plain = certify(mechanism, 1e-5)
    for one, other in zip(stored["adversaries"], plain["adversaries"], strict=True):
        np.testing.assert_allclose(one["epsilon"], other["epsilon"], rtol=1e-12)
        np.testing.assert_allclose(one["advantage"], other["advantage"], rtol=1e-12)


@pytest.mark.slow
def test_beside_the_cache_of_jax(tmp_path):
    """A program that JAX has in its own cache is none that can be written out again: XLA drops functions of it."""
    script = tmp_path / "twice.py"
    script.write_text("""
import sys
from pathlib import Path
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import jaxpriv
from jaxpriv.report import programs

def profile(curve, epsilon):
    return curve.delta(epsilon), curve.advantage(), curve.beta_bounds(epsilon)

job = [(profile, jaxpriv.worst_case.laplace(1.0), 0.5)]
jax.block_until_ready(jax.jit(profile)(*job[0][1:]))
print(programs.run(sys.argv[1], job))
""")
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "xla"), "PYTHONPATH": str(ROOT)}

    def run(folder):
        return subprocess.run([sys.executable, str(script), str(tmp_path / folder)], capture_output=True, text=True, check=True,
                              env=environment).stdout

    first = run("one")  # fills the cache of JAX
    assert run("two") == first  # lost its programs, or the sources have changed
    assert run("two") == first  # reads what the second wrote
