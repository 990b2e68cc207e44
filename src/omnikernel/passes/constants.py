"""What passes ask of constants."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.tile import Constant, Op, Value


def splat_bits(value: Value, makers: Mapping[Value, Op]) -> int | None:
    """The bits of a constant that is the same everywhere, also where it is splatted; None for any other value."""
    op = makers.get(value)
    while op is not None and op.name == "tt.splat":
        op = makers.get(op.operands[0])
    if op is None or op.name != "arith.constant":
        return None
    constant: Constant = op.attributes["value"]
    return constant.elements[0] if constant.is_splat else None
