"""tl.device_print: compiled and by the reference, line by line."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl
from tile_run import DTYPES, run_compiled, text_of

from omnikernel import reference
from omnikernel.ttir import parse


@triton.jit
def printed(x, n, N: tl.constexpr, HEX: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.device_print("x", v, hex=HEX)


@triton.jit
def printed_more(x, n):
    v = tl.load(x + tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)[None, :])
    tl.device_print("both 100%", v, n)
    tl.device_print("scalar", n)
    tl.device_print("only text")


def lines_of(capfd: pytest.CaptureFixture[str], kernel: Any, *arguments: Any, grid: tuple[int, int, int] = (1, 1, 1), **constants: Any) -> list[str]:  # fmt: skip
    """What both print, which must be the same."""
    text = text_of(kernel, arguments, constants)
    run_compiled(text, arguments, grid)
    compiled = capfd.readouterr().out
    reference.run(parse(text), [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments], grid)
    assert compiled == capfd.readouterr().out
    return compiled.splitlines()


def test_a_line_an_element(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.array([0.5 * i - 1 for i in range(16)], np.float32)
    lines = lines_of(capfd, printed, x, 0, N=16, HEX=False, grid=(1, 2, 1))
    assert lines[3] == "pid (0, 0, 0) idx ( 3) x: 0.500000"
    assert lines[16] == "pid (0, 1, 0) idx ( 0) x: -1.000000"
    assert len(lines) == 32


@pytest.mark.parametrize(
    ("dtype", "value", "plain", "hexadecimal"),
    [
        ("int8", -1, "-1", "0xff"),
        ("uint8", 255, "255", "0xff"),
        ("int32", -5, "-5", "0xfffffffb"),
        ("uint32", 2**32 - 1, "4294967295", "0xffffffff"),
        ("int64", -(2**40), "-1099511627776", "0xffffff0000000000"),
        ("float16", 1.5, "1.500000", "0x3e00"),
        ("bfloat16", -2.0, "-2.000000", "0xc000"),
        ("float64", 0.1, "0.100000", "0x3fb999999999999a"),
        ("float32", np.inf, "inf", "0x7f800000"),
    ],
)
def test_every_type(capfd: pytest.CaptureFixture[str], dtype: str, value: Any, plain: str, hexadecimal: str) -> None:
    x = np.array([value]).astype(DTYPES[dtype])
    assert lines_of(capfd, printed, x, 0, N=1, HEX=False) == [f"pid (0, 0, 0) idx (0) x: {plain}"]
    assert lines_of(capfd, printed, x, 0, N=1, HEX=True) == [f"pid (0, 0, 0) idx (0) x: {hexadecimal}"]


def test_several_operands_scalars_and_text(capfd: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capfd, printed_more, np.arange(4, dtype=np.int32), 7)
    assert lines == [
        "pid (0, 0, 0) idx (0, 0) both 100%: (operand 0) 0",
        "pid (0, 0, 0) idx (0, 1) both 100%: (operand 0) 1",
        "pid (0, 0, 0) idx (1, 0) both 100%: (operand 0) 2",
        "pid (0, 0, 0) idx (1, 1) both 100%: (operand 0) 3",
        "pid (0, 0, 0) idx () both 100%: (operand 1) 7",
        "pid (0, 0, 0) idx () scalar: 7",
        "pid (0, 0, 0) only text",
    ]


def test_prints_keep_their_place_among_those_of_python(tmp_path: Path) -> None:
    """Also where standard output is a pipe, which Python buffers."""
    script = """
        import numpy as np, triton, triton.language as tl
        @triton.jit
        def k(x):
            tl.device_print("x", tl.load(x))
        for i in range(2):
            print("before", i)
            k[(1,)](np.full(1, i, np.int32))
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=True, env=env)
    lines = done.stdout.splitlines()
    assert lines == ["before 0", "pid (0, 0, 0) idx () x: 0", "before 1", "pid (0, 0, 0) idx () x: 1"]
