"""What functions that are not exactly rounded mean to the reference here: what compiled code makes of them by themselves.

So a whole program can be compared bit for bit: a function gives the same bits wherever it stands, in vectors of any
length, in scalars, in a region, fused with what is around it. Each value is also held against the stock meaning, computed
wide, by the function's bound from `docs/math-accuracy.md`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import ceil
from typing import Any

import numpy as np
from program_writer import Val, Writer, type_text

from omnikernel import pipeline
from omnikernel.ir.tile import Op
from omnikernel.llvm.jit import load_object
from omnikernel.lower.lanes import Target
from omnikernel.lower.math import MATH, SYMBOLS, Row
from omnikernel.reference.registry import MEANS, Array, Meaning, dtype_of, kind_of

LANES = 64
KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def row_of(op: Op) -> Row | None:
    """The function of an op, where it is not exactly rounded."""
    name = op.name.removeprefix("math.")
    row = SYMBOLS.get(op.attributes["symbol"]) if name == "tt.extern_elementwise" else MATH.get(name)
    return row if row is not None and max(row.ulp.values()) > 0.5 else None


@cache
def unit(name: str, symbol: str, kinds: tuple[str, ...], result: str, target: Target | None) -> tuple[Any, Any]:
    """The function alone in a kernel that runs it on arrays, `LANES` elements a program: its artefact and its code."""
    w = Writer()
    pointers = [Val(f"%arg{at}", f"*{kind}") for at, kind in enumerate((*kinds, result))]
    program = w.op("i32", (), "tt.get_program_id x : i32")
    start = w.splat(w.binary("arith.muli", program, w.constant(LANES, "i32")), (LANES,))
    at = w.binary("arith.addi", start, w.make_range(LANES))
    tiles = [w.addptr(w.splat(pointer, (LANES,)), at) for pointer in pointers]
    operands = [w.load(tile) for tile in tiles[:-1]]
    names, types = ", ".join(v.name for v in operands), ", ".join(v.type for v in operands)
    if symbol:
        attributes = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
        text = f"{name} {names} {attributes} : ({types}) -> {type_text(result, (LANES,))}"
    else:
        text = f"{name} {names} : {types}"
    w.store(tiles[-1], w.op(result, (LANES,), text))
    w.line("tt.return")
    head = f"  tt.func public @kernel({', '.join(f'{p.name}: {p.type}' for p in pointers)}) attributes {{noinline = false}} {{"
    text = "\n".join(["module {", head, *w.lines, "  }", "}", ""])
    artefact = pipeline.compile_text(text, pipeline.Options(), target)
    return artefact, load_object(artefact.object, artefact.name)


def evaluate(op: Op, args: Sequence[Array], target: Target | None) -> Array:
    """The op on arrays, by its compiled function."""
    shape = np.broadcast_shapes(*(a.shape for a in args))
    count = int(np.prod(shape))
    padded = -(-count // LANES) * LANES
    arrays = [np.zeros(padded, a.dtype) for a in args]
    for array, arg in zip(arrays, args, strict=True):
        array[:count] = np.broadcast_to(arg, shape).ravel()
    result = op.results[0].type
    out = np.zeros(padded, dtype_of(result))
    kinds = tuple(kind_of(v.type) for v in op.operands)
    artefact, loaded = unit(op.name, op.attributes.get("symbol", ""), kinds, kind_of(result), target)
    slots = (ctypes.c_uint64 * (len(arrays) + 1))(*(a.ctypes.data for a in (*arrays, out)))
    grid, fault = (ctypes.c_int32 * 3)(padded // LANES, 1, 1), (ctypes.c_int32 * 4)()
    room = ctypes.create_string_buffer(artefact.arena_bytes + 64)
    arena = (ctypes.addressof(room) + 63) // 64 * 64
    code = KERNEL(loaded.address)(
        ctypes.addressof(slots), ctypes.addressof(grid), 0, padded // LANES, arena, ctypes.addressof(fault)
    )
    assert code == 0, op
    return out[:count].reshape(shape)


def distance(one: Array, other: Array) -> Array:
    """How many values of their type lie between two; NaNs lie together, and far from all others."""
    bits, top = np.dtype(f"i{one.dtype.itemsize}"), 8 * one.dtype.itemsize - 1

    def place(value: Array) -> Array:
        at = value.view(bits).astype(object)
        return np.where(at < 0, -(at + (1 << top)), at)

    far = np.abs(place(one) - place(other))
    nan = np.isnan(one.astype(np.float64)), np.isnan(other.astype(np.float64))
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 1 << top, far))


def hold(op: Op, row: Row, got: Array, want: Array, args: Sequence[Array]) -> None:
    """The compiled function is within its bound of the wide one."""
    kind = kind_of(op.results[0].type)
    bound = ceil(row.ulp[kind]) if kind in row.ulp else 1
    far = np.atleast_1d(distance(np.atleast_1d(got), np.atleast_1d(want)))
    bad = np.argwhere(far > bound + 1)  # the wide one is itself rounded, f64 twice
    if bad.size:
        at = tuple(int(i) for i in bad[0])
        values = [np.broadcast_to(a, far.shape)[at] for a in args]
        raise AssertionError(
            f"{row.name} of {values}: compiled {got.reshape(far.shape)[at]!r}, "
            f"wide {want.reshape(far.shape)[at]!r}, {far[at]} apart, bound {bound}"
        )


def _meaning(stock: Meaning, target: Target | None) -> Meaning:
    def meaning(machine: Any, op: Op, args: tuple[Array, ...]) -> Any:
        row, want = row_of(op), stock(machine, op, args)
        if row is None:
            return want
        got = evaluate(op, args, target)
        hold(op, row, got, np.broadcast_to(np.asarray(want[0]), got.shape), args)
        return [got]

    return meaning


@contextmanager
def functions_as_compiled(target: Target | None = None) -> Iterator[None]:
    """Within, the reference takes functions that are not exactly rounded from code compiled for a machine, or this one."""
    names = [name for name in MEANS if name.startswith("math.") or name == "tt.extern_elementwise"]
    stock = {name: MEANS[name] for name in names}
    MEANS.update({name: _meaning(meaning, target) for name, meaning in stock.items()})
    try:
        yield
    finally:
        MEANS.update(stock)
