"""Whole launches, compiled and run: what only the real launcher and real code can show."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

Run = Callable[..., str]

ADD = """
import sys
import numpy as np
import triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)
"""


def test_numpy_without_any_framework(python: Run) -> None:
    out = python(
        ADD
        + """
x, y, out = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32), np.zeros(1000, np.float32)
for _ in range(3):
    out[:] = 0
    kernel = add[grid](x, y, out, 1000, BLOCK=128)
    print((out == x + 1).all())
kernel[(8, 1, 1)](y, y, out, 1000, 128)
print((out == 2).all(), [name for name in ("torch", "jax") if name in sys.modules])
"""
    )
    assert out.splitlines() == ["True"] * 3 + ["True []"]


def test_hooks_see_the_launch(python: Run) -> None:
    out = python(
        ADD
        + """
x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
add[(1,)](x, x, out, 8, BLOCK=8)
enter = lambda data: print("enter", data.get()["name"])
leave = lambda data: print("leave", data.get()["name"])
triton.knobs.runtime.launch_enter_hook.add(enter)
triton.knobs.runtime.launch_exit_hook.add(leave)
add[(1,)](x, x, out, 8, BLOCK=8)
"""
    )
    assert out.splitlines() == ["enter add", "leave add"]


def test_autotune_with_reset_and_restore(python: Run) -> None:
    out = python(
        """
import numpy as np
import triton, triton.language as tl

@triton.autotune(
    configs=[triton.Config({"N": 32}, num_warps=1), triton.Config({"N": 64}, num_warps=4)],
    key=["n"], reset_to_zero=["total"], restore_value=["p"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["N"] == 0})
@triton.jit
def collect(p, total, n, N: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(p + i) if EVEN else tl.load(p + i, mask=i < n, other=0.0)
    tl.atomic_add(total, tl.sum(x, axis=0))
    tl.store(p + i, x + 1, mask=i < n)

p, total = np.ones(128, np.float32), np.zeros(1, np.float32)
collect[lambda meta: (triton.cdiv(128, meta["N"]),)](p, total, 128)
print(total[0], p.sum())
""",
        hide=("torch",),
    )
    assert out.split() == ["128.0", "256.0"]


def test_a_damaged_binary_is_compiled_again(python: Run) -> None:
    code = (
        ADD
        + "out = np.zeros(8, np.float32); add[(1,)](out, np.ones(8, np.float32), out, 8, BLOCK=8); print(out.sum())\n"
    )
    damage = """
import os, pathlib
for variable in ("TRITON_CACHE_DIR", "OMNIKERNEL_CACHE_DIR"):
    for file in pathlib.Path(os.environ[variable]).rglob("*"):
        if file.suffix in (".so", ".json", ".kernel"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
"""
    assert python(code + damage).split() == ["8.0"]
    assert python(code).split() == ["8.0"]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_torch_tensors_and_refused_ones(python: Run) -> None:
    out = python(
        ADD
        + """
import torch
x, out = torch.arange(8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
add[(1,)](x, x, out, 8, BLOCK=8)
print(out.tolist() == (2 * x).tolist())
for bad in (torch.zeros(8, device="meta"), torch.zeros(8).to_sparse(), torch.zeros(8, dtype=torch.complex64)):
    try:
        add[(1,)](bad, bad, bad, 8, BLOCK=8)
    except TypeError as error:
        print("kernel 'add', parameter 'x'" in str(error))
print(triton.runtime.driver.active.get_active_torch_device())
"""
    )
    assert out.splitlines() == ["True", "True", "True", "True", "cpu"]


@pytest.mark.jax
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_jax_arrays_are_read_and_refused_in_written_positions(python: Run) -> None:
    out = python(
        ADD
        + """
import jax.numpy as jnp
x, out = jnp.arange(8, dtype=jnp.float32), np.zeros(8, np.float32)
add[(1,)](x, x, out, 8, BLOCK=8)
print(out.tolist() == (2 * x).tolist())
try:
    add[(1,)](x, x, x, 8, BLOCK=8)
except TypeError as error:
    print("parameter 'out'" in str(error), float(x.sum()))
"""
    )
    assert out.splitlines() == ["True", "True 28.0"]
