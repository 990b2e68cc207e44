"""Writes TTIR text, a line an op, and keeps the types of the values it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import ml_dtypes
import numpy as np

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f8E5M2": 8,
    "f8E4M3FN": 8,
}
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
FP8 = ("f8E5M2", "f8E4M3FN")
DTYPES = {
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
}
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Val:
    """A named value; kind is an element such as `f32`, or `*f32` for pointers."""

    name: str
    kind: str
    shape: Shape = ()

    @property
    def type(self) -> str:
        return type_text(self.kind, self.shape)


def type_text(kind: str, shape: Shape) -> str:
    element = f"!tt.ptr<{kind[1:]}>" if kind.startswith("*") else kind
    return f"tensor<{'x'.join(map(str, shape))}x{element}>" if shape else element


def float_bits(value: float, kind: str) -> int:
    with np.errstate(all="ignore"):
        return int(np.array(value, np.float64).astype(DTYPES[kind]).view(f"u{BITS[kind] // 8}"))


class Writer:
    """The lines of one module, and fresh names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 2
        self._next = 0

    def name(self) -> str:
        self._next += 1
        return f"%{self._next}"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def inside(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def op(self, kind: str, shape: Shape, text: str) -> Val:
        made = Val(self.name(), kind, shape)
        self.line(f"{made.name} = {text}")
        return made

    # --- ops that all drawing needs ----------------------------------------------------------------------------------

    def constant(self, value: float, kind: str, shape: Shape = ()) -> Val:
        if kind == "i1":
            text = "true" if value else "false"
        elif kind.startswith("i"):
            text = str(int(value))
        else:
            simple = value in (0.0, 1.0, -1.5, 0.5) and not (value == 0 and np.signbit(value))
            text = f"{value:.6e}" if simple else f"0x{float_bits(value, kind):0{BITS[kind] // 4}X}"
        if not shape and kind == "i1":
            return self.op(kind, shape, f"arith.constant {text}")
        return self.op(kind, shape, f"arith.constant {f'dense<{text}>' if shape else text} : {type_text(kind, shape)}")

    def binary(self, name: str, a: Val, b: Val, attribute: str = "", kind: str = "") -> Val:
        """An op of two operands of one type; the result is of that type unless kind says otherwise."""
        assert a.type == b.type, (name, a, b)
        head = f"{name} {attribute}, " if attribute else f"{name} "
        return self.op(kind or a.kind, a.shape, f"{head}{a.name}, {b.name} : {a.type}")

    def unary(self, name: str, a: Val) -> Val:
        return self.op(a.kind, a.shape, f"{name} {a.name} : {a.type}")

    def cast(self, name: str, a: Val, kind: str) -> Val:
        return self.op(kind, a.shape, f"{name} {a.name} : {a.type} to {type_text(kind, a.shape)}")

    def reshaped(self, name: str, a: Val, shape: Shape, attribute: str = "") -> Val:
        """An op that changes the shape only."""
        return self.op(a.kind, shape, f"{name} {a.name}{attribute} : {a.type} -> {type_text(a.kind, shape)}")

    def splat(self, a: Val, shape: Shape) -> Val:
        return self.reshaped("tt.splat", a, shape) if shape else a

    def expand(self, a: Val, axis: int) -> Val:
        shape = (*a.shape[:axis], 1, *a.shape[axis:])
        return self.reshaped("tt.expand_dims", a, shape, f" {{axis = {axis} : i32}}")

    def broadcast(self, a: Val, shape: Shape) -> Val:
        return a if a.shape == shape else self.reshaped("tt.broadcast", a, shape)

    def make_range(self, extent: int) -> Val:
        return self.op(
            "i32", (extent,), f"tt.make_range {{end = {extent} : i32, start = 0 : i32}} : tensor<{extent}xi32>"
        )

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        types = f"{condition.type}, {a.type}" if a.shape else a.type
        return self.op(a.kind, a.shape, f"arith.select {condition.name}, {a.name}, {b.name} : {types}")

    def addptr(self, pointer: Val, offset: Val) -> Val:
        return self.op(
            pointer.kind, pointer.shape, f"tt.addptr {pointer.name}, {offset.name} : {pointer.type}, {offset.type}"
        )

    def load(self, pointer: Val, mask: Val | None = None, other: Val | None = None) -> Val:
        names = ", ".join(v.name for v in (pointer, mask, other) if v is not None)
        return self.op(pointer.kind[1:], pointer.shape, f"tt.load {names} : {pointer.type}")

    def store(self, pointer: Val, value: Val, mask: Val | None = None) -> None:
        names = ", ".join(v.name for v in (pointer, value, mask) if v is not None)
        self.line(f"tt.store {names} : {pointer.type}")

    def results(self, kinds: Sequence[tuple[str, Shape]]) -> tuple[str, list[Val]]:
        """The left-hand side of an op of several results, and the values."""
        name = self.name()
        if len(kinds) == 1:
            return name, [Val(name, *kinds[0])]
        return f"{name}:{len(kinds)}", [Val(f"{name}#{i}", k, s) for i, (k, s) in enumerate(kinds)]
