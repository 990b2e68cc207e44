"""Real kernels through `kernel[grid](...)`: the fast path, overlaps, forks, threads, with the C extension and without."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")

from omnikernel.runtime import pool  # noqa: E402

pytestmark = pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed")

KERNELS = """
import gc, os, signal, sys, threading
import numpy as np
import triton, triton.language as tl
from omnikernel.runtime import pool

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def shift(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

def vectors(n):
    return np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32), np.zeros(n, np.float32)

def fast(kernel):
    table = vars(kernel).get("_omnikernel_table")
    return 0 if table is None else len(table)
"""


def run(tmp_path: Path, code: str, no_native: bool) -> None:
    """Run the code in a process of its own, with caches of its own."""
    if not no_native and pool.native() is None:
        pytest.skip("the C extension is not built")
    script = tmp_path / "script.py"
    script.write_text(KERNELS + textwrap.dedent(code))
    environment = {
        **os.environ,
        "OMNIKERNEL_NO_NATIVE": "1" if no_native else "0",
        "OMNIKERNEL_CACHE_DIR": str(tmp_path / "kernels"),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "OMNIKERNEL_NUM_THREADS": "2",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    for name in ("TRITON_INTERPRET", "OMNIKERNEL_REFERENCE", "OMNIKERNEL_CHECK"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


both = pytest.mark.parametrize("no_native", [False, True], ids=["native", "python"])


@both
def test_launches_repeat_without_torch(tmp_path: Path, no_native: bool) -> None:
    code = """
        for n in (16, 100, 1, 4096, 100):
            x, y, out = vectors(n)
            for _ in range(3):
                out[:] = 0
                add[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
                assert (out == x + 0.5).all()
        assert fast(add) == (0 if pool.native() is None else 3), fast(add)
        assert "torch" not in sys.modules and "jax" not in sys.modules
    """
    run(tmp_path, code, no_native)


@both
def test_a_tile_is_read_before_it_is_written(tmp_path: Path, no_native: bool) -> None:
    """With shifted, overlapping arrays: the fast path must not launch what was compiled for disjoint ones."""
    code = """
        for _ in range(3):
            memory = np.arange(1100, dtype=np.float32)
            shift[(1,)](memory[:1024], np.zeros(1024, np.float32), 1024, BLOCK=1024)
            shift[(1,)](memory[:1024], memory[16:1040], 1024, BLOCK=1024)
            assert (memory[16:1040] == np.arange(1024)).all()
            memory = np.arange(1100, dtype=np.float32)
            shift[(1,)](memory[16:1040], memory[:1024], 1024, BLOCK=1024)
            assert (memory[:1024] == np.arange(16, 1040)).all()
    """
    run(tmp_path, code, no_native)


@both
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_launches_and_compiles(tmp_path: Path, no_native: bool) -> None:
    code = """
        x, y, out = vectors(1 << 16)
        launch = lambda block: add[(triton.cdiv(x.size, block),)](x, y, out, x.size, BLOCK=block)
        launch(64); launch(64)
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            out[:] = 0
            launch(64)
            right = (out == x + 0.5).all()
            launch(128)  # compiled in the child
            os._exit(0 if right and (out == x + 0.5).all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        out[:] = 0
        launch(64)
        assert (out == x + 0.5).all()
    """
    run(tmp_path, code, no_native)


@both
def test_two_threads_launch_at_once(tmp_path: Path, no_native: bool) -> None:
    code = """
        failures = []
        def work():
            x, y, out = vectors(1 << 15)
            for i in range(30):
                out[:] = 0
                add[(triton.cdiv(x.size, 64),)](x, y, out, x.size, BLOCK=64)
                if not (out == x + 0.5).all():
                    failures.append(i)
        threads = [threading.Thread(target=work) for _ in range(2)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not failures, failures
    """
    run(tmp_path, code, no_native)


def test_the_fast_path_keeps_no_references(tmp_path: Path) -> None:
    code = """
        x, y, out = vectors(64)
        grid = lambda meta: (meta["n"] // meta["BLOCK"],)
        kwargs = {"BLOCK": 16}
        launch = lambda: add[grid](x, y, out, 64, **kwargs)
        launch(); compiled = launch()
        held = (x, y, out, grid, kwargs, compiled, x.dtype, vars(add)["_omnikernel_table"], np.ndarray)
        before = [sys.getrefcount(each) for each in held]
        for _ in range(1000):
            launch()
        gc.collect()
        after = [sys.getrefcount(each) for each in held]
        assert all(b - a < 10 for a, b in zip(before, after)), (before, after)
    """
    run(tmp_path, code, no_native=False)
