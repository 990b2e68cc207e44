"""A first launch in a new process finds its object code without Triton's front end, unless something that matters changed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnikernel

SOURCE = Path(omnikernel.__file__).parents[1]

HELPERS = """
import triton

@triton.jit
def twice(x):
    return x + x

@triton.jit
def changed(x):
    return twice(x)
"""
KERNELS = """
import triton, triton.language as tl
import helpers

SHIFT = tl.constexpr(3)

@triton.jit
def kernel(x, y, z, out, N: tl.constexpr, FACTOR: tl.constexpr):
    i = tl.arange(0, N)
    product = tl.load(x + i) * tl.load(y + i) + tl.load(z + i)
    tl.device_assert(product < 1e9, "product is small")
    tl.store(out + i, helpers.changed(product) * FACTOR + SHIFT)
"""
RUN = """
import os, sys
import numpy as np
{before}
import triton
from triton.compiler import compiler

front_ends = []
make_ir = compiler.ASTSource.make_ir
compiler.ASTSource.make_ir = lambda *args, **kwargs: (front_ends.append(1), make_ir(*args, **kwargs))[1]
import kernels

e = np.float32(2**-13)
x, y, z = np.full(8, 1 + e), np.full(8, 1 - e), np.full(8, -1, np.float32)
out = np.zeros(8, np.float32)
kernels.kernel[(1,)](x, y, z, out, N=8, FACTOR={factor})
print(len(front_ends), out[0] == out[-1], float(out[0]))
"""
EXACT = -(2.0**-26)  # x * y + z, fused; 0 where the product is rounded first

Launch = Callable[..., tuple[int, float]]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Launch the kernel in a process of its own: how often the front end ran, and what was stored."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "kernels.py").write_text(KERNELS)

    def run(before: str = "", factor: int = 1, **env: str) -> tuple[int, float]:
        folders = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "OMNIKERNEL_CACHE_DIR": str(tmp_path / "ours")}
        path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)]), "PYTHONDONTWRITEBYTECODE": "1"}
        base = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "OMNIKERNEL_"))}
        code = RUN.format(before=before, factor=factor)
        made = subprocess.run(
            [sys.executable, "-c", code],
            env={**base, **folders, **path, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        count, same, value = made.stdout.split()[-3:]
        assert same == "True"
        return int(count), float(value)

    return run


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_nothing_changed(launch: Launch) -> None:
    first = launch()
    assert first == (1, pytest.approx(3, abs=1e-6))
    assert launch() == (0, first[1])
    assert launch(OMNIKERNEL_NO_NATIVE="1", OMNIKERNEL_NUM_THREADS="2") == (0, first[1])
    assert launch(OMNIKERNEL_REFERENCE="1") == (0, first[1])


def test_a_dump_needs_a_compilation(launch: Launch, tmp_path: Path) -> None:
    first, dumps = launch(), tmp_path / "dumps"
    assert launch(OMNIKERNEL_DUMP="tile,llvm", OMNIKERNEL_DUMP_DIR=str(dumps)) == (1, first[1])
    assert {file.suffix for file in dumps.iterdir()} == {".tile", ".ll"}
    assert launch() == (0, first[1])


def test_changed_source(launch: Launch, tmp_path: Path) -> None:
    changes = [
        ("kernels.py", "constexpr(3)", "constexpr(5)", 5),  # a global
        ("helpers.py", "return twice(x)", "return 1 + twice(x)", 6),  # a function of another module
        ("helpers.py", "return x + x", "return x + 7", 13),  # one that it calls
        ("kernels.py", "* FACTOR", "- FACTOR", 12),  # the kernel
    ]
    assert launch() == (1, pytest.approx(3, abs=1e-6))
    for file, old, new, value in changes:
        edit(tmp_path / file, old, new)
        assert launch() == (1, pytest.approx(value, abs=1e-5)), new
    for file, old, new, _ in reversed(changes):
        edit(tmp_path / file, new, old)
    assert launch() == (0, pytest.approx(3, abs=1e-6))  # what was known before is known still


def test_changed_constants_and_flags(launch: Launch) -> None:
    assert launch()[0] == 1
    changes: list[tuple[dict[str, str], float]] = [
        ({}, 2.5),  # 3 + 2^25 * EXACT, and 2^24 for 1
        ({"TRITON_DEBUG": "1"}, 2.5),
        ({"TRITON_DEFAULT_FP_FUSION": "0"}, 3),
    ]
    for env, value in changes:
        assert launch(factor=1 << 24, **env) == (1, value), env
    for env, value in changes:
        assert launch(factor=1 << 24, **env) == (0, value), env


HOST = (
    "import dataclasses, omnikernel.llvm.jit as m; t = m.host_target(); m.host_target = lambda: dataclasses.replace(t, "
)


def test_another_toolchain_or_processor(launch: Launch) -> None:
    others = [
        "import triton; triton.__version__ = '3.99.0'",
        "import omnikernel.llvm.revision as m; m.revision = lambda: 'another'",
        HOST + "features=t.features - {'avx512f', 'bmi2', 'neon'})",
        HOST + "cpu='x86-64')",
    ]
    first = launch()
    assert first[0] == 1
    for before in others:
        assert launch(before) == (1, first[1]), before
    assert launch() == (0, first[1])
