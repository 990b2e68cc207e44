"""tt.print: a line an element on standard output, as Triton prints on a GPU.

    pid (0, 0, 0) idx ( 3) x: 1.500000

The C library's `dprintf` writes each line whole, so lines of different threads never mix.
"""

from __future__ import annotations

from ..ir.tile import Op, Value
from ..ir.types import Pointer, shape_of
from ..llvm.emit import I32, LValue
from .evaluate import Evaluator
from .function import FunctionLowering, statement
from .index import Index
from .lanes import Lanes

STANDARD_OUTPUT = 1


def width(extent: int) -> int:
    """Columns of an index below an extent: ceil(log10(extent))."""
    return len(str(extent - 1)) if extent > 1 else 0


def print_line(fl: FunctionLowering, template: str, args: list[LValue]) -> None:
    """Write a line by a C format."""
    b = fl.b
    data = template.encode() + b"\n\0"
    text = "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\{c:02X}" for c in data)
    name = b.module.constant(f"format.{len(b.module.globals)}", f'[{len(data)} x i8] c"{text}"')
    b.module.declare("dprintf", "i32", ["i32", "ptr", "..."])
    listed = "".join(f", {arg}" for arg in args)
    b.emit(I32, f"call i32 (i32, ptr, ...) @dprintf(i32 {STANDARD_OUTPUT}, ptr {name}{listed})")


def formatted(fl: FunctionLowering, value: Lanes, hexadecimal: bool, signed: bool) -> tuple[str, LValue]:
    """The C format of a value, and the value as C passes it."""
    b = fl.b
    element = value.type
    if isinstance(element, Pointer):
        return "%p", value.raw(b)
    if hexadecimal:
        bits = b.cast("bitcast", value.raw(b), f"i{value.raw(b).type.bits}")
        digits = max(1, element.bits // 4)
        return f"0x%0{digits}llx", b.integer_cast(bits, "i64", signed=False)
    if element.is_float:
        wide = value.wide(b)
        return "%f", b.cast("fpext", wide, "double") if wide.type.scalar == "float" else wide
    signed = signed and element.bits > 1
    return "%lli" if signed else "%llu", b.integer_cast(value.raw(b), "i64", signed=signed)


@statement("tt.print")
def lower_print(fl: FunctionLowering, op: Op) -> None:
    prefix = op.attributes.get("prefix", "").replace("%", "%%")
    programs = list(fl.programs)
    if not op.operands:
        print_line(fl, f"pid (%u, %u, %u){prefix}", programs)
        return
    signs = op.attributes.get("isSigned", ())
    for number, operand in enumerate(op.operands):
        which = f"(operand {number}) " if len(op.operands) > 1 else ""
        signed = bool(signs[number]) if number < len(signs) else False
        _print_operand(fl, operand, prefix + which, bool(op.attributes.get("hex")), signed)


def _print_operand(fl: FunctionLowering, operand: Value, prefix: str, hexadecimal: bool, signed: bool) -> None:
    shape = shape_of(operand.type)
    places = ", ".join(f"%{width(extent) or ''}llu" for extent in shape)

    def line(ev: Evaluator, index: Index) -> None:
        value = ev.evaluate(operand, index)[0]
        template, passed = formatted(fl, value, hexadecimal, signed)
        at = [ix.base for ix in index]
        print_line(fl, f"pid (%u, %u, %u) idx ({places}){prefix}{template}", [*fl.programs, *at, passed])

    if not shape:
        line(Evaluator(fl, flow=True), ())
        return
    fl.settle([operand], shape, keep=False)
    fl.nest(shape, [operand], line, scalar=True)
