"""The pool in C under ThreadSanitizer: all kinds of launches, several callers, failures, workers that fall asleep."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "src" / "omnikernel" / "runtime" / "_native"
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-pthread"]


def test_no_races(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    empty = tmp_path / "empty.c"
    empty.write_text("int main(void) { return 0; }\n")
    built = subprocess.run([compiler, *FLAGS, empty, "-o", tmp_path / "empty"], capture_output=True, check=False)
    if built.returncode != 0 or subprocess.run([tmp_path / "empty"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the C compiler has no ThreadSanitizer that runs here")
    include = sysconfig.get_path("include")
    sources = [HERE / "pool_races.c", NATIVE / "pool.c"]
    binary = tmp_path / "races"
    subprocess.run([compiler, *FLAGS, f"-I{NATIVE}", f"-I{include}", *sources, "-o", binary], check=True)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr  # ThreadSanitizer's own exit status is 66
    assert "ThreadSanitizer" not in done.stderr
    shared = [[int(word) for word in line.split() if word.isdigit()] for line in done.stdout.splitlines()]
    assert len(shared) == 5
    assert all(parts == order == 200 and unknown == 100 and long == 50 for _, _, parts, order, unknown, long in shared)
