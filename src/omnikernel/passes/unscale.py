"""Rewrite `tt.dot_scaled` to a plain dot of scaled operands.

Each operand becomes the 16-bit float type that GPUs without such instructions compute in: f16 where either operand is
f16, else bf16. Pairs of 4-bit floats are unpacked, low half first; a scale is the power of two of its exponent byte (or
an fp8 number), constant over a block of k; 0xFF makes its block NaN. The product of value and scale is rounded once.

Source: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf, sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import UnsupportedOp
from ..ir.tile import Constant, Kernel, Op, Value, walk
from ..ir.types import BF16, F16, F32, I1, I16, I32, Scalar, Tensor, element_of
from .rewrite import Rewriter

_FLOATS = ("e4m3", "e5m2", "bf16", "fp16")
_NAN = {"bf16": 0x7FC0, "f16": 0x7E00}


class _Unscale(Rewriter):
    def op(self, op: Op) -> list[Op]:
        new = self.rebuilt(op)
        return _Product(new).ops() if op.name == "tt.dot_scaled" else [new]


class _Product:
    """The ops that one scaled dot becomes."""

    def __init__(self, op: Op) -> None:
        self.dot = op
        self.made: list[Op] = []
        kinds = {op.attributes["lhs_elem_type"], op.attributes["rhs_elem_type"]}
        for kind in kinds - {*_FLOATS, "e2m1"}:
            raise UnsupportedOp(f"{op.loc}: tt.dot_scaled of {kind} operands is not supported by the CPU backend")
        self.compute = F16 if "fp16" in kinds else BF16

    def ops(self) -> list[Op]:
        op = self.dot
        scales = list(op.operands[3:])
        left_scale = scales.pop(0) if op.attributes["has_lhs_scale"] else None
        right_scale = scales.pop(0) if op.attributes["has_rhs_scale"] else None
        left = self.operand(op.operands[0], left_scale, "lhs", -1)
        right = self.operand(op.operands[1], right_scale, "rhs", -2)
        self.made.append(
            Op("tt.dot", (left, right, op.operands[2]), op.results, {"inputPrecision": "ieee"}, loc=op.loc)
        )
        return self.made

    # --- building --------------------------------------------------------------------------------------------------------

    def emit(self, name: str, operands: Sequence[Value], type_: Tensor, **attributes: Any) -> Value:
        result = Value(f"{self.dot.result.name}.{len(self.made)}", type_, self.dot.loc)
        self.made.append(Op(name, tuple(operands), (result,), attributes, loc=self.dot.loc))
        return result

    def constant(self, type_: Tensor, bits: int) -> Value:
        return self.emit("arith.constant", (), type_, value=Constant((bits,), type_))

    def binary(self, name: str, left: Value, bits: int) -> Value:
        type_ = _tile(left)
        return self.emit(name, (left, self.constant(type_, bits)), type_)

    def transposed(self, value: Value) -> Value:
        type_ = _tile(value)
        order = (*range(type_.rank - 2), type_.rank - 1, type_.rank - 2)
        shape = tuple(type_.shape[d] for d in order)
        return self.emit("tt.trans", (value,), Tensor(shape, type_.element), order=order)

    # --- operands --------------------------------------------------------------------------------------------------------

    def operand(self, value: Value, scale: Value | None, side: str, k_dim: int) -> Value:
        """An operand in the compute type, k along dimension `k_dim` from the end."""
        if self.dot.attributes[f"{side}_elem_type"] == "e2m1":
            value = self.unpacked(value, k_dim if self.dot.attributes.get(f"{side}_k_pack", True) else -3 - k_dim)
        elif element_of(value.type) != self.compute:
            value = self.emit("tt.fp_to_fp", (value,), _tile(value).with_element(self.compute), rounding="rtne")
        if scale is None:
            return value
        rows = scale if k_dim == -1 else self.transposed(scale)
        factor = self.spread(self.power(rows), value, k_dim)
        product = self.emit("arith.mulf", (value, factor), _tile(value))
        return product if self.dot.attributes.get("fastMath") else self.with_nan(product, rows, k_dim)

    def unpacked(self, value: Value, dim: int) -> Value:
        """4-bit floats, two a byte along a dimension: sign, two bits of exponent, one of mantissa."""
        if dim == -2:
            return self.transposed(self.unpacked(self.transposed(value), -1))
        byte = _tile(value)
        wide = byte.with_element(I32)
        bits = self.emit("arith.extui", (value,), wide)
        halves = [self.number(self.binary("arith.andi", bits, 15)), self.number(self.binary("arith.shrui", bits, 4))]
        pairs = self.emit("tt.join", halves, Tensor((*byte.shape, 2), self.compute))
        shape = (*byte.shape[:-1], 2 * byte.shape[-1])
        return self.emit("tt.reshape", (pairs,), Tensor(shape, self.compute))

    def number(self, bits: Value) -> Value:
        """The float of 4 bits in an i32: exponent and mantissa as those of an f32, and its bias made up for."""
        type_ = _tile(bits)
        sign = self.binary("arith.shli", self.binary("arith.andi", bits, 8), 28)
        rest = self.binary("arith.shli", self.binary("arith.andi", bits, 7), 22)
        single = type_.with_element(F32)
        small = self.emit("arith.bitcast", (self.emit("arith.ori", (sign, rest), type_),), single)
        full = self.binary("arith.mulf", small, (127 + 126) << 23)  # * 2^126: exact, also for 0.5, which is subnormal
        return self.emit("arith.truncf", (full,), type_.with_element(self.compute))

    def power(self, scale: Value) -> Value:
        """Scales in the compute type: 2^(byte - 127), as the exponent of a float."""
        type_ = _tile(scale)
        made = type_.with_element(self.compute)
        if isinstance(type_.element, Scalar) and type_.element.is_float:
            return self.emit("tt.fp_to_fp", (scale,), made, rounding="rtne")
        if self.compute == BF16:
            bits = self.binary("arith.shli", self.emit("arith.extui", (scale,), type_.with_element(I16)), 7)
            return self.emit("arith.bitcast", (bits,), made)
        bits = self.binary("arith.shli", self.emit("arith.extui", (scale,), type_.with_element(I32)), 23)
        single = self.emit("arith.bitcast", (bits,), type_.with_element(F32))
        return self.emit("arith.truncf", (single,), made)

    def spread(self, scale: Value, value: Value, k_dim: int) -> Value:
        """Every scale along k as often as its block has elements."""
        shape = _tile(value).shape
        type_ = _tile(scale)
        at = type_.rank + k_dim + 1  # behind the dimension of k
        factor = shape[k_dim] // type_.shape[k_dim]
        expanded = (*type_.shape[:at], 1, *type_.shape[at:])
        repeated = (*type_.shape[:at], factor, *type_.shape[at:])
        tall = self.emit("tt.expand_dims", (scale,), Tensor(expanded, type_.element), axis=at)
        full = self.emit("tt.broadcast", (tall,), Tensor(repeated, type_.element))
        return self.emit("tt.reshape", (full,), Tensor(shape, type_.element))

    def with_nan(self, product: Value, scale: Value, k_dim: int) -> Value:
        """NaN where the scale is: 0xFF, or an fp8 NaN."""
        type_ = _tile(scale)
        if isinstance(type_.element, Scalar) and type_.element.is_float:
            return product  # its NaN is in the product already
        all_ones = self.constant(type_, 0xFF)
        bad = self.emit("arith.cmpi", (scale, all_ones), type_.with_element(I1), predicate="eq")
        nan = self.constant(_tile(product), _NAN[self.compute.kind])
        return self.emit("arith.select", (self.spread(bad, product, k_dim), nan, product), _tile(product))


def _tile(value: Value) -> Tensor:
    assert isinstance(value.type, Tensor)
    return value.type


def unscale(kernel: Kernel) -> Kernel:
    """Replace every scaled dot by a plain one.

    Raises:
        UnsupportedOp: for an element type that no release of Triton's front end makes.
    """
    if not any(op.name == "tt.dot_scaled" for function in kernel.functions for op in walk(function.body)):
        return kernel
    return _Unscale().kernel(kernel)
