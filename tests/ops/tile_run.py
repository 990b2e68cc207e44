"""Runs a Triton kernel compiled and by the reference, which must agree bit for bit: a harness for the tests beside it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from omnikernel import pipeline, reference
from omnikernel.frontend import ttir_text
from omnikernel.llvm.jit import load_object
from omnikernel.passes.clip import clip
from omnikernel.passes.contract import contract
from omnikernel.ttir import parse

KINDS = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
}
DTYPES = {
    **{name: np.dtype(name) for name in KINDS if not name.startswith(("bf", "float8"))},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def random(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Small numbers of any type: sums and products of a few stay finite."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -50), 50, shape).astype(dtype)
    return rng.normal(size=shape).astype(np.float32).astype(DTYPES[dtype])


def text_of(kernel: Any, arguments: Sequence[Any], constants: dict[str, Any]) -> str:
    kinds = ["*" + KINDS[a.dtype.name] if isinstance(a, np.ndarray) else "i32" for a in arguments]
    return ttir_text(kernel, ",".join(kinds), constants)


def run_compiled(text: str, arguments: Sequence[Any], grid: tuple[int, int, int], *, disjoint: bool = True) -> None:
    """Run all programs, in order, in this thread."""
    artefact = pipeline.compile_text(text, pipeline.Options(disjoint=disjoint, debug=True))
    loaded = load_object(artefact.object, artefact.name)
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a & (2**64 - 1) for a in arguments]
    slots = (ctypes.c_uint64 * max(1, len(values)))(*values)
    room = ctypes.create_string_buffer(artefact.arena_bytes + 64)
    arena = (ctypes.addressof(room) + 63) // 64 * 64
    fault = (ctypes.c_int32 * 4)()
    extents = (ctypes.c_int32 * 3)(*grid)
    code = SIGNATURE(loaded.address)(
        ctypes.addressof(slots),
        ctypes.addressof(extents),
        0,
        grid[0] * grid[1] * grid[2],
        arena,
        ctypes.addressof(fault),
    )
    assert code == 0, f"assert {code} failed in program {fault[:3]}"


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit; any NaN equals any NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    bits = np.dtype(f"u{got.dtype.itemsize}")
    differ = got.view(bits) != want.view(bits)
    if got.dtype.kind not in "iub":
        differ &= ~(np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64)))
    if differ.any():
        at = tuple(np.argwhere(differ)[0])
        raise AssertionError(f"{differ.sum()} of {got.size} differ; at {at} got {got[at]!r}, want {want[at]!r}")


def run(kernel: Any, *arguments: Any, grid: tuple[int, int, int] = (1, 1, 1), **constants: Any) -> list[np.ndarray]:
    """The arrays as the kernel leaves them, compiled; the reference must leave the same.

    Args:
        kernel: a `@triton.jit` function.
        arguments: arrays, which are not changed, and integers.
        constants: values of its constexpr parameters.
    """
    text = text_of(kernel, arguments, constants)
    got = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    want = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    run_compiled(text, got, grid)
    reference.run(contract(clip(parse(text))), [a.ctypes.data if isinstance(a, np.ndarray) else a for a in want], grid)
    for one, other in zip(got, want, strict=True):
        if isinstance(one, np.ndarray):
            same(one, other)
    return [a for a in got if isinstance(a, np.ndarray)]
