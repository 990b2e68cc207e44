"""Kernels as people write them, on the CPU: plain, checked (also for races), and once under AddressSanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_cases import CASES, load


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(compiler: object, name: str, checked: bool) -> None:
    CASES[name](load(name, checked=checked), np.array, np.asarray)


@pytest.mark.torch
def test_on_torch_tensors(compiler: object) -> None:
    torch = pytest.importorskip("torch")
    CASES["matmul"](load("matmul"), torch.tensor, lambda t: t.numpy())


SANITIZED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from cuda_cases import CASES, load
for name, case in CASES.items():
    case(load(name, extra_cflags=["-fsanitize=address", "-g", "-O1"], stack_bytes=131072), np.array, np.asarray)
print("all", len(CASES))
"""


def test_under_address_sanitizer(compiler: object, tmp_path: Path) -> None:
    find = subprocess.run([compiler.path, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)  # type: ignore[attr-defined]
    runtime = find.stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("the compiler has no AddressSanitizer library")
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(Path(__file__).parent)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.strip() == f"all {len(CASES)}"
