"""The thread pools, in C and in Python: every program once, in order, after fork, from several threads."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import handmade as kernels
import numpy as np
import pytest

from omnikernel import processors
from omnikernel.llvm import jit
from omnikernel.pipeline import Artefact
from omnikernel.runtime import pool
from omnikernel.runtime.pool import Grid, Pool, PythonPool

NATIVE = pool.native()


@pytest.fixture(params=["native", "python"])
def threads4(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of four threads, on however few processors."""
    if request.param == "python":
        made: Pool = PythonPool()
    elif NATIVE is None:
        pytest.skip("the C extension is not built")
    else:
        made = NATIVE  # type: ignore[assignment]
    before = made.get_num_threads()
    made.set_num_threads(4)
    yield made
    made.set_num_threads(before)


def launch(where: Pool, artefact: Artefact, grid: Grid, *slots: int) -> object:
    loaded = jit.load_object(artefact.object, artefact.name)
    packed = struct.pack(f"={len(slots)}Q", *slots)
    return where.run(loaded.address, packed, grid, artefact.arena_bytes, artefact.cost)


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 2), (64, 1, 1), (1000, 1, 1), (3, 1, 4001)])
def test_every_program_runs_once(threads4: Pool, grid: Grid) -> None:
    counts = np.zeros(grid[0] * grid[1] * grid[2], np.int32)
    for _ in range(20):
        assert launch(threads4, kernels.count(), grid, counts.ctypes.data) is None
    assert counts.min() == counts.max() == 20


def test_zero_grid_runs_nothing(threads4: Pool) -> None:
    assert launch(threads4, kernels.count(), (0, 5, 1), 0) is None


def test_small_work_runs_inline_and_right(threads4: Pool) -> None:
    counts = np.zeros(100, np.int32)
    assert launch(threads4, kernels.count(cost=1.0), (100, 1, 1), counts.ctypes.data) is None
    assert counts.tolist() == [1] * 100


def test_programs_that_wait_for_lower_ones_make_progress(threads4: Pool) -> None:
    for _ in range(5):
        turn = np.zeros(1, np.int64)
        assert launch(threads4, kernels.turn(), (64, 1, 1), turn.ctypes.data) is None
        assert turn[0] == 64


@pytest.mark.parametrize("lowest", [0, 1, 37, 499, 999])
def test_the_lowest_failing_program_is_reported(threads4: Pool, lowest: int) -> None:
    for _ in range(10):
        assert launch(threads4, kernels.fail(), (1000, 1, 1), lowest) == (2, lowest, 0, 0)
    assert launch(threads4, kernels.fail(), (1000, 1, 1), 1000) is None  # and the pool is none the worse


def test_concurrent_launches(threads4: Pool) -> None:
    arrays = [np.zeros(500, np.int32) for _ in range(3)]

    def repeat(counts: np.ndarray) -> None:
        for _ in range(50):
            launch(threads4, kernels.count(), (500, 1, 1), counts.ctypes.data)

    callers = [threading.Thread(target=repeat, args=(counts,)) for counts in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(counts.min() == counts.max() == 50 for counts in arrays)


def test_the_number_of_threads_may_change_between_launches(threads4: Pool) -> None:
    counts = np.zeros(200, np.int32)
    for number in (1, 3, 2, 6, 1, 4):
        threads4.set_num_threads(number)
        launch(threads4, kernels.count(), (200, 1, 1), counts.ctypes.data)
    assert counts.min() == counts.max() == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("no_native", ["0", "1"])
def test_a_forked_child_launches_again(no_native: str) -> None:
    """In a process of its own: the parent of this test may hold threads of other libraries."""
    code = """
        import os, signal, sys
        import numpy as np
        sys.path.insert(0, sys.argv[1])
        import handmade as kernels
        from omnikernel.runtime import pool
        from omnikernel.runtime.launch import Executable
        pool.set_num_threads(3)
        kernel = Executable(kernels.count())
        counts = np.zeros(300, np.int32)
        kernel.run((300,), [counts])
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            kernel.run((300,), [counts])
            grandchild = os.fork()
            if grandchild == 0:
                signal.alarm(30)
                kernel.run((300,), [counts])
                os._exit(0 if counts.min() == counts.max() == 3 else 1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        kernel.run((300,), [counts])
        assert counts.min() == counts.max() == 2, counts
        assert (pool.native() is None) == (sys.argv[2] == "1") or not sys.argv[3] == "True"
        sys.exit(status)
    """
    root = Path(__file__).resolve().parent
    environment = {**os.environ, "OMNIKERNEL_NO_NATIVE": no_native, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(code), str(root), no_native, str(NATIVE is not None)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_number_of_threads_is_checked() -> None:
    with pytest.raises(ValueError, match="expected at least 1 thread, got 0"):
        pool.set_num_threads(0)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_cgroup_v2_quota_is_the_smallest_of_the_parents(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/outer/inner\n")
    write(tmp_path / "cg/outer/inner/cpu.max", "max 100000\n")
    write(tmp_path / "cg/outer/cpu.max", "150000 100000\n")
    assert processors.cgroup_quota(tmp_path / "proc", tmp_path / "cg") == 1.5


def test_cgroup_v1_quota(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "5:memory:/a\n3:cpu,cpuacct:/a\n")
    write(tmp_path / "cg/cpu/a/cpu.cfs_quota_us", "100000\n")
    write(tmp_path / "cg/cpu/a/cpu.cfs_period_us", "50000\n")
    write(tmp_path / "cg/cpu/cpu.cfs_quota_us", "-1\n")
    assert processors.cgroup_quota(tmp_path / "proc", tmp_path / "cg") == 2.0


def test_no_quota_means_the_affinity(tmp_path: Path) -> None:
    assert processors.cgroup_quota(tmp_path, tmp_path) is None
    assert processors.available_threads(tmp_path, tmp_path) >= 1


def test_a_quota_limits_the_affinity(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "cg/cpu.max", "50000 100000\n")
    assert processors.available_threads(tmp_path / "proc", tmp_path / "cg") == 1


def test_cache_sizes(tmp_path: Path) -> None:
    told = {
        "0": ("1", "Data", "48K"),
        "1": ("1", "Instruction", "32K"),
        "2": ("2", "Unified", "2048K"),
        "3": ("3", "Unified", "1M"),
    }
    for number, (level, kind, size) in told.items():
        for name, text in (("level", level), ("type", kind), ("size", size)):
            write(tmp_path / f"index{number}" / name, f"{text}\n")
    write(tmp_path / "index4/level", "4\n")  # of which nothing else is known
    assert processors.cache_sizes(tmp_path) == [48 << 10, 2 << 20, 1 << 20]
    assert processors.cache_sizes(tmp_path / "none") == []
