"""The types of tile IR values.

A type is one of four frozen dataclasses. Names of element kinds are MLIR's (`f32`, `bf16`, `i1`, `f8E5M2`), so a
type prints as it stands in TTIR.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

INTEGER_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
FLOAT_BITS = {
    "f64": 64,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f8E5M2": 8,
    "f8E4M3FN": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
    "f8E4M3B11FNUZ": 8,
}
# Floats that are computed in f32 and rounded after each operation.
NARROW_FLOATS = frozenset(FLOAT_BITS) - {"f64", "f32"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer or floating-point type, named as MLIR names it."""

    kind: str

    @property
    def bits(self) -> int:
        """Width of the value in bits (1 for `i1`)."""
        return INTEGER_BITS.get(self.kind) or FLOAT_BITS[self.kind]

    @property
    def bytes(self) -> int:
        """Width in memory; `i1` is stored as a byte."""
        return max(8, self.bits) // 8

    @property
    def is_float(self) -> bool:
        return self.kind in FLOAT_BITS

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_BITS

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class Pointer:
    """`!tt.ptr<pointee>`; a pointer to a tensor is a block pointer."""

    pointee: Type
    space: int = 1

    @property
    def bits(self) -> int:
        return 64

    @property
    def bytes(self) -> int:
        return 8

    def __str__(self) -> str:
        return f"!tt.ptr<{self.pointee}>" if self.space == 1 else f"!tt.ptr<{self.pointee}, {self.space}>"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tile: a fixed shape (every extent at least 1) of scalars or pointers."""

    shape: tuple[int, ...]
    element: Scalar | Pointer

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def with_element(self, element: Scalar | Pointer) -> Tensor:
        return Tensor(self.shape, element)

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}>"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """`!tt.tensordesc<tensor<..>>`: a tensor descriptor of blocks of the given type.

    `unsigned` says how `tt.descriptor_reduce` compares integers (TTIR has `ui32` and `si32` here and nowhere else).
    """

    block: Tensor
    unsigned: bool = False

    def __str__(self) -> str:
        element = f"u{self.block.element}" if self.unsigned else str(self.block.element)
        return f"!tt.tensordesc<tensor<{'x'.join(map(str, self.block.shape))}x{element}>>"


Type = Scalar | Pointer | Tensor | Descriptor

I1, I8, I16, I32, I64, INDEX = (Scalar(k) for k in ("i1", "i8", "i16", "i32", "i64", "index"))
F16, BF16, F32, F64 = (Scalar(k) for k in ("f16", "bf16", "f32", "f64"))


def element_of(type_: Type) -> Scalar | Pointer:
    """The element type of a tensor, or a scalar or pointer type itself.

    Raises:
        TypeError: for a descriptor, which has no element.
    """
    if isinstance(type_, Tensor):
        return type_.element
    if isinstance(type_, Descriptor):
        raise TypeError(f"{type_} has no element type")
    return type_


def shape_of(type_: Type) -> tuple[int, ...]:
    """The shape of a tensor; () for everything else."""
    return type_.shape if isinstance(type_, Tensor) else ()


def like(type_: Type, element: Scalar | Pointer) -> Type:
    """The type of the same shape with another element."""
    return type_.with_element(element) if isinstance(type_, Tensor) else element
