"""`tt.dot_scaled`: a dot product of operands in narrow formats with a scale for every block of k.

Each operand becomes the 16-bit float type that GPUs without such instructions compute in: f16 where either operand is
f16, else bf16. The product of a value and its scale is rounded to it once. The dot is then that of `reduce`.

Formats: Open Compute Project, "Microscaling Formats (MX) Specification" 1.0, sections 5 and 6. A 4-bit float has a sign, two bits of
exponent and one of mantissa, two a byte, the low half first; a scale byte e means 2^(e - 127), and 0xFF NaN.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedOp
from ..ir.tile import Op
from . import narrow
from .reduce import dot_float
from .registry import DTYPES, Array, Machine, Outcome, bits_of, from_bits, means, scalar_kind, where

FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)


@means("tt.dot_scaled")
def dot_scaled(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    a, b, c, *scales = args
    left_scale = scales.pop(0) if op.attributes["has_lhs_scale"] else None
    right_scale = scales.pop(0) if op.attributes["has_rhs_scale"] else None
    kinds = (op.attributes["lhs_elem_type"], op.attributes["rhs_elem_type"])
    compute = "f16" if "fp16" in kinds else "bf16"
    left = _operand(op, a, left_scale, "lhs", compute)
    # Seen from k, the right operand is the left one of the transposed product.
    right = _operand(op, b.swapaxes(-1, -2), right_scale, "rhs", compute).swapaxes(-1, -2)
    kind = scalar_kind(op).kind
    return [narrow.narrow(dot_float(left, right, c, "f64" if kind == "f64" else "f32"), kind)]


def _operand(op: Op, value: Array, scale: Array | None, side: str, compute: str) -> Array:
    """An operand (rows, k) in the compute type, with its scales (rows, blocks of k) multiplied in."""
    kind: str = op.attributes[f"{side}_elem_type"]
    if kind == "e2m1":
        value = _unpacked(value, -1 if op.attributes.get(f"{side}_k_pack", True) else -2)
    elif kind not in ("e4m3", "e5m2", "bf16", "fp16"):
        raise UnsupportedOp(f"tt.dot_scaled of {kind} operands at {where(op.loc)} has no meaning in the reference")
    wide = narrow.widen(narrow.narrow(narrow.widen(value), compute))
    if scale is None:
        return narrow.narrow(wide, compute)
    if scale.dtype.kind in "iu":
        factor = from_bits(bits_of(scale).astype(np.uint32) << np.uint32(23), np.dtype(np.float32))
        bad = np.zeros(scale.shape, np.bool_) if op.attributes.get("fastMath") else bits_of(scale) == 0xFF
    else:
        factor, bad = narrow.widen(scale), np.zeros(scale.shape, np.bool_)
    factor = narrow.widen(narrow.narrow(factor, compute))
    length = value.shape[-1] // scale.shape[-1]
    made = narrow.narrow(wide * np.repeat(factor, length, axis=-1), compute)
    return np.where(np.repeat(bad, length, axis=-1), np.array(np.nan).astype(DTYPES[compute]), made)


def _unpacked(value: Array, axis: int) -> Array:
    """Two 4-bit floats a byte along an axis, as f32."""
    bits = np.moveaxis(bits_of(value), axis, -1)
    codes = np.stack([bits & 15, bits >> 4], axis=-1).reshape(*bits.shape[:-1], -1)
    made = np.where(codes & 8, -FP4[codes & 7], FP4[codes & 7])
    return np.moveaxis(made, -1, axis)
