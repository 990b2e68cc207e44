"""`tt.print`: a line an element on standard output, as Triton prints on a GPU.

pid (0, 0, 0) idx ( 3) x: 1.500000
"""

from __future__ import annotations

import numpy as np

from ..ir.tile import Op, Value
from ..ir.types import Pointer, element_of
from .registry import Array, Machine, Outcome, bits_of, means


@means("tt.print")
def device_print(machine: Machine, op: Op, args: tuple[Array, ...]) -> Outcome:
    program = ", ".join(map(str, machine.program))
    prefix: str = op.attributes.get("prefix", "")
    if not args:
        print(f"pid ({program}){prefix}", flush=True)
    signs = op.attributes.get("isSigned", ())
    for number, (operand, value) in enumerate(zip(op.operands, args, strict=True)):
        which = f"(operand {number}) " if len(args) > 1 else ""
        signed = number < len(signs) and bool(signs[number])
        for index in np.ndindex(value.shape):
            at = ", ".join(
                str(i).rjust(len(str(extent - 1)) if extent > 1 else 0)
                for i, extent in zip(index, value.shape, strict=True)
            )
            text = formatted(operand, value[index], bool(op.attributes.get("hex")), signed)
            print(f"pid ({program}) idx ({at}){prefix}{which}{text}", flush=True)
    return []


def formatted(operand: Value, value: Array, hexadecimal: bool, signed: bool) -> str:
    """One element as C's printf would write it."""
    element = element_of(operand.type)
    if isinstance(element, Pointer):
        return hex(int(value)) if value else "(nil)"
    bits = int(bits_of(np.asarray(value)))
    if hexadecimal:
        return f"0x{bits:0{max(1, element.bits // 4)}x}"
    if element.is_float:
        made = f"{float(value):f}"
        return f"-{made}" if made == "nan" and np.signbit(value) else made
    return str(int(value)) if signed and element.bits > 1 else str(bits)


__all__ = ["device_print", "formatted"]
