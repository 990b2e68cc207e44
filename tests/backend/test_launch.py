"""What a launch hands to the launcher: arguments of every kind, grids of every form. Nothing is executed here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., str]

KERNEL = """
import triton, triton.language as tl

@triton.jit
def copy(p, r, n, N: tl.constexpr = 8):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(r + i, tl.load(p + i, mask=i < n), mask=i < n)

p, r = np.zeros(8, np.float32), np.zeros(8, np.float32)
"""


def test_grids(python: Run) -> None:
    out = python(
        KERNEL
        + """
for grid in [(2,), [2, 3], (2, 3, 4), 5, np.int64(6), (np.int32(7),), lambda meta: (meta["N"],), lambda meta: 9]:
    copy[grid](p, r, 8)
print([call[1] for call in CALLS])
for grid in [(), (1, 1, 1, 1), (1.5,), "x"]:
    try:
        copy[grid](p, r, 8)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
""",
        recorder=True,
    )
    grids, *errors = out.splitlines()
    assert grids == str([(2, 1, 1), (2, 3, 1), (2, 3, 4), (5, 1, 1), (6, 1, 1), (7, 1, 1), (8, 1, 1), (9, 1, 1)])
    assert errors == [
        "ValueError a grid has one to three dimensions, got ()",
        "ValueError a grid has one to three dimensions, got (1, 1, 1, 1)",
        "TypeError a grid is made of whole numbers, got (1.5,)",
        "TypeError a grid is made of whole numbers, got ('x',)",
    ]


def test_arguments_reach_the_launcher_as_they_are(python: Run) -> None:
    out = python(
        KERNEL
        + """
copy[(1,)](p, r, 8, 16)
copy[(1,)](p, n=np.int64(8), r=r, N=np.int64(16), num_warps=8, waves_per_eu=2)
for name, grid, args in CALLS:
    print(name, args[0] is p, args[1] is r, type(args[2]).__name__, args[3])
print(len(COMPILED))
""",
        recorder=True,
    )
    assert out.splitlines() == ["copy True True int 16", "copy True True int64 16", "1"]


def test_specialisation_is_that_of_a_tensor(python: Run) -> None:
    out = python(
        KERNEL
        + """
import re
copy[(1,)](p, r, 16)
copy[(1,)](p[1:], r, 17)
for text in COMPILED:
    head = next(line for line in text.splitlines() if "tt.func" in line)
    print(head.count("tt.divisibility"), "f32" in head)
""",
        recorder=True,
    )
    assert out.splitlines() == ["3 True", "1 True"]


def test_dtypes(python: Run) -> None:
    out = python(
        KERNEL
        + """
import ml_dtypes
names = ["bool", "int8", "uint16", "int64", "float16", "float64", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
for name in names:
    copy[(1,)](np.zeros(8, name), np.zeros(8, name), 8)
print([text.split("!tt.ptr<")[1].split(">")[0] for text in COMPILED])
""",
        recorder=True,
    )
    assert out.strip() == str(["i8", "i8", "i16", "i64", "f16", "f64", "bf16", "f8E5M2"]) or out.strip() == str(
        ["i1", "i8", "i16", "i64", "f16", "f64", "bf16", "f8E5M2"]
    )


def test_tuples_and_constants(python: Run) -> None:
    out = python(
        KERNEL
        + """
@triton.jit
def mix(sources, weights, r, unused, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(r + i, tl.load(sources[0] + i) * weights[0] + tl.load(sources[1] + i) * weights[1])

mix[(1,)]((p, r), (2, 3), r, None, N=8)
(name, grid, args), = CALLS
print(args[0][0] is p, args[0][1] is r, args[1], args[3], args[4])
""",
        recorder=True,
    )
    assert out.strip() == "True True (2, 3) None 8"


def test_configurations_that_differ_in_gpu_options_compile_once(python: Run) -> None:
    out = python(
        KERNEL
        + """
for warps in (1, 2, 4, 8):
    for stages in (1, 2, 3):
        kernel = copy[(1,)](p, r, 8, num_warps=warps, num_stages=stages)
print(len(COMPILED), len(CALLS))
""",
        recorder=True,
    )
    assert out.split() == ["1", "12"]


def test_warmup_compiled_kernel_and_what_libraries_read(python: Run) -> None:
    out = python(
        KERNEL
        + """
kernel = copy.warmup(triton.MockTensor(np.dtype("float32")), triton.MockTensor(np.dtype("float32")), 8, grid=(1,))
print(len(CALLS), len(COMPILED))
kernel._init_handles()
print(min(kernel.n_regs, kernel.metadata.shared, kernel.metadata.num_warps) > 0, kernel.n_spills)
kernel[(4, 1, 1)](p, r, 8, 8)
kernel[(5,)](p, r, 8, 8)
copy.run(p, r, 8, grid=(6,), warmup=False)
print([call[1] for call in CALLS], kernel.metadata.target.backend, sorted(kernel.asm))
try:
    copy[(1,)](p, r, 8, BLOK=3)
except (KeyError, TypeError) as error:
    print("BLOK" in str(error))
""",
        recorder=True,
    )
    assert out.splitlines() == [
        "0 1",
        "True 0",
        "[(4, 1, 1), (5, 1, 1), (6, 1, 1)] cpu ['so', 'source', 'ttir']",
        "True",
    ]


def test_hooks_heuristics_and_do_not_specialize(python: Run) -> None:
    out = python(
        """
import triton, triton.language as tl

@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit(do_not_specialize=["n"])
def fill(r, n, EVEN: tl.constexpr):
    tl.store(r + n, EVEN)

r = np.zeros(8, np.int32)
jit = fill.fn
jit.add_pre_run_hook(lambda *args, **kwargs: print("pre-run", len(args), sorted(kwargs)[:1]))
fill[(1,)](r, 1)
fill[(1,)](r, 3)
fill[(1,)](r, n=16)
print([call[2][2] for call in CALLS], len(COMPILED))
""",
        recorder=True,
    )
    assert out.splitlines() == [
        "pre-run 2 ['EVEN']",
        "pre-run 2 ['EVEN']",
        "pre-run 1 ['EVEN']",
        "[False, False, True] 2",
    ]


def test_errors_name_the_kernel_and_are_tritons_too(python: Run) -> None:
    out = python(
        KERNEL
        + """
import copy as copying, pickle
from omnikernel.errors import UnsupportedOp

def refuse(text, options, *rest, **named):
    raise UnsupportedOp("op tt.foo is not supported, at script.py:7")

pipeline.compile_text = refuse
try:
    copy[(1,)](p, r, 8)
except triton.CompilationError as error:
    print(isinstance(error, UnsupportedOp), error)
    for again in (copying.deepcopy(error), pickle.loads(pickle.dumps(error))):
        print(type(again) is type(error), str(again) == str(error))
""",
        recorder=True,
    )
    assert out.splitlines() == [
        "True kernel copy: op tt.foo is not supported, at script.py:7",
        "True True",
        "True True",
    ]


def test_arguments_that_cannot_be_passed(python: Run) -> None:
    out = python(
        KERNEL
        + """
for bad in (np.zeros(8, object), np.zeros(8, ">f4"), [1, 2], np.zeros(8, complex)):
    try:
        copy[(1,)](bad, r, 8)
    except TypeError as error:
        print("TypeError")
print(len(CALLS))
""",
        recorder=True,
    )
    assert out.split() == ["TypeError"] * 4 + ["0"]


def test_no_framework_is_imported_for_numpy(python: Run) -> None:
    """Asking GPU drivers, or Triton's own specialisation of arguments, would import torch where it is installed."""
    out = python(
        KERNEL
        + """
from omnikernel.backend import hooks
import unittest.mock as mock
with mock.patch.object(hooks, "no_gpu", lambda: True):
    driver = triton.runtime.driver.active
print([name for name in ("torch", "jax") if name in sys.modules])
""",
        recorder=True,
    )
    assert out.strip() == "[]"


@pytest.mark.parametrize("grid", ["(0,)", "(3, 0)"])
def test_an_empty_grid_is_the_launchers_affair(python: Run, grid: str) -> None:
    out = python(KERNEL + f"copy[{grid}](p, r, 8)\nprint(CALLS[0][1])", recorder=True)
    assert "0" in out
