"""The table of NumPy meanings, and the representation of values that all of them share.

A value is a NumPy array of the element's dtype (`DTYPES`), of the shape of its IR type; a scalar is a 0-d array.
Integers are signed arrays of their width, `i1` is bool, pointers are int64 addresses, bf16 and fp8 are `ml_dtypes`.
Arrays are never changed in place once they are a value, so views of one another are fine.

A meaning takes the machine, the op and the arrays of its operands, and returns those of its results. The meaning of
an elementwise op never asks for the shape that the IR type states: it takes any shapes that broadcast, so the region
of a reduction, written on scalars, runs on whole slices with the same meanings. It does ask the result type for its
element, which decides the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..ir.tile import Constant, Kernel, Location, Op, Region, Value
from ..ir.types import Pointer, Scalar, Type, element_of

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
UNSIGNED: dict[int, np.dtype[Any]] = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
SIGNED: dict[int, np.dtype[Any]] = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}


def dtype_of(type_: Type) -> np.dtype[Any]:
    """The dtype of the arrays that hold values of an IR type."""
    element = element_of(type_)
    return DTYPES["i64"] if isinstance(element, Pointer) else DTYPES[element.kind]


def kind_of(type_: Type) -> str:
    """The name of the element of an IR type; `ptr` for pointers."""
    element = element_of(type_)
    return "ptr" if isinstance(element, Pointer) else element.kind


def bits_of(value: Array) -> Array:
    """The bit patterns as unsigned integers of the same width (bool as uint8)."""
    return np.asarray(value).view(UNSIGNED[8 * value.dtype.itemsize])


def from_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    """The inverse of `bits_of`; for bool the lowest bit counts."""
    if dtype == np.bool_:
        return (np.asarray(bits) & 1).astype(np.bool_)
    return np.asarray(bits).astype(UNSIGNED[8 * dtype.itemsize], copy=False).view(dtype)


def constant(value: Constant) -> Array:
    """The array of an `arith.constant`; a splat is a 0-d array, to be broadcast by the caller."""
    dtype = dtype_of(value.type)
    mask = (1 << (8 * dtype.itemsize)) - 1
    bits = np.array([element & mask for element in value.elements], UNSIGNED[8 * dtype.itemsize])
    made = from_bits(bits, dtype)
    return made.reshape(()) if value.is_splat else made


@dataclass(frozen=True, slots=True)
class Leave:
    """What a terminator of a region does: the region ends with these values."""

    op: Op
    values: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """What a branch does: go to the block of that label, passing these values."""

    label: str
    values: tuple[Array, ...]


class Observer(Protocol):
    """What a check may watch. Addresses and mask are flat arrays in row-major order of the lanes.

    `load`, `store` and `atomic` come before memory is touched, with the width of an element in bytes; an observer
    may raise to stop the launch. `branch` tells which way an scf.if or cf.cond_br went.
    """

    def program(self, x: int, y: int, z: int) -> None: ...

    def load(self, op: Op, addresses: Array, mask: Array, width: int) -> None: ...

    def store(self, op: Op, addresses: Array, mask: Array, width: int) -> None: ...

    def atomic(self, op: Op, addresses: Array, mask: Array, width: int) -> None: ...

    def branch(self, op: Op, taken: bool) -> None: ...


class Machine(Protocol):
    """What a meaning may ask of the interpreter: the program that runs, its environment and its regions."""

    kernel: Kernel
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    observer: Observer | None

    def values(self, names: Sequence[Value]) -> tuple[Array, ...]:
        """The arrays of values in scope."""

    def run_region(self, region: Region, args: Sequence[Array], *, free: bool = False) -> Leave:
        """Run a region to the terminator that leaves it. `free`: shapes may differ from those that types state."""

    def call(self, name: str, args: Sequence[Array]) -> tuple[Array, ...]:
        """Call a function of the kernel."""


Outcome = Sequence[Array] | Leave | Jump
Meaning = Callable[[Machine, Op, tuple[Array, ...]], Outcome]
MEANS: dict[str, Meaning] = {}


def means(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the meaning of ops by name."""

    def register(meaning: Meaning) -> Meaning:
        for name in names:
            assert name not in MEANS, f"{name} has a meaning already"
            MEANS[name] = meaning
        return meaning

    return register


Pure = Callable[..., Array]


def means_all(table: Mapping[str, Pure]) -> None:
    """Register ops that are plain functions of their operands' arrays; the result is cast to nothing."""
    for name, function in table.items():

        def meaning(machine: Machine, op: Op, args: tuple[Array, ...], function: Pure = function) -> Outcome:
            return [function(*args)]

        means(name)(meaning)


def scalar_kind(op: Op, result: int = 0) -> Scalar:
    """The element of a result that must be an integer or a float."""
    element = element_of(op.results[result].type)
    assert isinstance(element, Scalar), op
    return element


def where(loc: Location) -> str:
    """A location for a message, with the line that called it where the op was inlined."""
    return str(loc) + "".join(f", called from {caller}" for caller in loc.callers[:1])
