"""TTIR of compare-and-swaps as Triton's library writes it, and what runs it compiled and by the reference."""

from __future__ import annotations

import ctypes

import numpy as np

from omnikernel import reference
from omnikernel.ir.tile import Kernel, walk

KINDS = {
    "f32": (np.float32, "i32", "arith.cmpf ogt,"),
    "f16": (np.float16, "i16", "arith.cmpf ogt,"),
    "f64": (np.float64, "i64", "arith.cmpf ogt,"),
    "i8": (np.int8, "i8", "arith.cmpi sgt,"),
    "i32": (np.int32, "i32", "arith.cmpi sgt,"),
    "u16": (np.uint16, "i16", "arith.cmpi ugt,"),
    "i64": (np.int64, "i64", "arith.cmpi sgt,"),
}


class Text:
    """Writes the TTIR of a kernel that loads a tile of 2^rank elements, does something, and stores it."""

    def __init__(self, kind: str, rank: int) -> None:
        self.element = kind.replace("u", "i")
        self.bits, self.greater = KINDS[kind][1:]
        self.rank, self.size = rank, 1 << rank
        self.count = 0
        self.lines: list[str] = []

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def cube(self, element: str, axes: tuple[int, ...] | None = None) -> str:
        extents = [2 if axes is None or d in axes else 1 for d in range(self.rank)]
        return f"tensor<{'x'.join(map(str, extents))}x{element}>"

    def flip(self, x: str, axis: int, combine: str = "arith.xori") -> str:
        """x ^ xor_sum(x, axis), as the library writes it."""
        wide, rest = self.cube(self.bits), [2] * (self.rank - 1)
        one = [1 if d == axis else 2 for d in range(self.rank)]
        small = f"tensor<{'x'.join(map(str, rest))}x{self.bits}>"
        tall = f"tensor<{'x'.join(map(str, one))}x{self.bits}>"
        floats = self.element != self.bits
        bits = self.emit(f"tt.bitcast {x} : {self.cube(self.element)} -> {wide}") if floats else x
        total = self.emit(
            f'"tt.reduce"({bits}) <{{axis = {axis} : i32}}> ({{\n^bb0(%a: {self.bits}, %b: {self.bits}):\n'
            f"  %c = {combine} %a, %b : {self.bits}\n  tt.reduce.return %c : {self.bits}\n}}) : ({wide}) -> {small}"
        )
        grown = self.emit(f"tt.expand_dims {total} {{axis = {axis} : i32}} : {small} -> {tall}")
        spread = self.emit(f"tt.broadcast {grown} : {tall} -> {wide}")
        other = self.emit(f"arith.xori {bits}, {spread} : {wide}")
        return self.emit(f"tt.bitcast {other} : {wide} -> {self.cube(self.element)}") if floats else other

    def side(self, axis: int) -> str:
        shape = [2 if d == axis else 1 for d in range(self.rank)]
        return self.emit(f"tt.reshape %two : tensor<2xi32> -> tensor<{'x'.join(map(str, shape))}xi32>")

    def swap(self, x: str, axis: int, order: int | None, late: bool) -> str:
        """One compare-and-swap; `order` is the axis that alternates (None: ascending), `late` the form of Triton 3.9."""
        y = self.flip(x, axis)
        greater = self.emit(f"{self.greater} {x}, {y} : {self.cube(self.element)}")
        right, axes = self.side(axis), (axis,)
        if order is not None:
            axes = (order, axis)
            pair = self.cube("i32", axes)
            sides = [(self.side(order), order), (right, axis)]
            left, right = (self.emit(f"tt.broadcast {v} : {self.cube('i32', (d,))} -> {pair}") for v, d in sides)
            right = self.emit(f"arith.xori {left}, {right} : {pair}")
        if late:
            zero = self.emit(f"arith.constant dense<0> : {self.cube('i32', axes)}")
            right = self.emit(f"arith.cmpi ne, {right}, {zero} : {self.cube('i32', axes)}")
        kind = "i1" if late else "i32"
        if len(axes) < self.rank:
            right = self.emit(f"tt.broadcast {right} : {self.cube(kind, axes)} -> {self.cube(kind)}")
        if not late:
            greater = self.emit(f"arith.extui {greater} : {self.cube('i1')} to {self.cube('i32')}")
        differs = self.emit(f"arith.cmpi ne, {greater}, {right} : {self.cube(kind)}")
        return self.emit(f"arith.select {differs}, {y}, {x} : {self.cube('i1')}, {self.cube(self.element)}")

    def sort(self, x: str, late: bool) -> str:
        for stage in range(1, self.rank + 1):
            order = self.rank - 1 - stage if stage < self.rank else None
            for step in range(stage):
                x = self.swap(x, self.rank - stage + step, order, late)
        return x

    def text(self, result: str) -> str:
        flat = f"tensor<{self.size}x{self.element}>"
        pointers = f"tensor<{self.size}x!tt.ptr<{self.element}>>"
        head = f"""\
module {{
  tt.func public @kernel(%x: !tt.ptr<{self.element}>, %y: !tt.ptr<{self.element}>) attributes {{noinline = false}} {{
    %i = tt.make_range {{end = {self.size} : i32, start = 0 : i32}} : tensor<{self.size}xi32>
    %two = tt.make_range {{end = 2 : i32, start = 0 : i32}} : tensor<2xi32>
    %p = tt.splat %x : !tt.ptr<{self.element}> -> {pointers}
    %px = tt.addptr %p, %i : {pointers}, tensor<{self.size}xi32>
    %q = tt.splat %y : !tt.ptr<{self.element}> -> {pointers}
    %py = tt.addptr %q, %i : {pointers}, tensor<{self.size}xi32>
    %flat = tt.load %px : {pointers}
    %h = tt.reshape %flat : {flat} -> {self.cube(self.element)}
"""
        tail = f"""
    %out = tt.reshape {result} : {self.cube(self.element)} -> {flat}
    tt.store %py, %out : {pointers}
    tt.return
  }}
}}
"""
        return head + "\n".join(self.lines) + tail


def names(kernel: Kernel) -> list[str]:
    return [op.name for op in walk(kernel.entry.body)]


def data(kind: str, size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    dtype = np.dtype(KINDS[kind][0])
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        values = random.integers(info.min, info.max, size, dtype, endpoint=True)
        values[::5] = values[0]
        return values
    values = (random.standard_normal(size) * 3).astype(dtype)
    values[::7] = 0.0
    values[3::7] = -0.0
    values[5::31] = np.inf
    return values


def run_compiled(text: str, x: np.ndarray) -> np.ndarray:
    from omnikernel.llvm.jit import function_at, load_object
    from omnikernel.pipeline import Options, compile_text

    made = compile_text(text, Options(disjoint=True))
    loaded = load_object(made.object, made.name)
    y = np.zeros_like(x)
    slots = (ctypes.c_uint64 * 2)(x.ctypes.data, y.ctypes.data)
    arena = np.zeros(made.arena_bytes + 64, np.uint8)
    at = (arena.ctypes.data + 63) & ~63
    assert function_at(loaded.address)(slots, (ctypes.c_int32 * 3)(1, 1, 1), 0, 1, at, (ctypes.c_int32 * 3)()) == 0
    return y


def run_reference(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    reference.run(kernel, [x.ctypes.data, y.ctypes.data], (1, 1, 1))
    return y
