"""Tile IR -> text: what `OMNIKERNEL_DUMP=tile` shows. In: a kernel after any stage. Out: text that `ttir.parse` reads.

One op a line, with types where values are defined:

    kernel "3.7.1" {
      func public @copy(%a: !tt.ptr<f32> {tt.divisibility = 16}, %n: i32) {
        %c: i32 = arith.constant 4
        %m: i1 = arith.cmpi %n, %c {predicate = "slt"}
        cf.cond_br %m -> ^bb1, ^bb2(%c)

Regions follow an op as `({...}, {...})`. Values keep the user's names; where two values in scope share one, the later
gets a suffix. The text depends on nothing but the kernel, and printing what was read back gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .floats import literal
from .tile import Block, Constant, Function, Kernel, Location, Op, Region, Value
from .types import Descriptor, Pointer, Scalar, Tensor, Type, element_of, shape_of

# Attributes that an op has even where its text does not say so. The reader fills them in, the printer leaves them out.
DEFAULTS: dict[str, dict[str, Any]] = {
    "tt.load": {"isVolatile": False, "boundaryCheck": (), "padding": None},
    "tt.store": {"boundaryCheck": ()},
    "tt.reshape": {"allow_reorder": False, "efficient_layout": False},
    "tt.reduce": {"reverse": False},
    "tt.scan": {"reverse": False},
    "tt.dot": {"inputPrecision": "ieee", "maxNumImpreciseAcc": 0},
    "tt.dot_scaled": {"fastMath": False, "lhs_k_pack": True, "rhs_k_pack": True},
    "tt.make_tensor_descriptor": {"padding": "zero"},
    "tt.print": {"hex": False, "isSigned": ()},
    "tt.map_elementwise": {"pack": 1},
    "scf.for": {"unsigned": False},
}

_WORD = re.compile(r"[A-Za-z_][\w.$]*")
_NAME = re.compile(r"[^\w.$\-]")
_NUMBERED = re.compile(r"(.*)#(\d+)")


def print_kernel(kernel: Kernel, locations: bool = False) -> str:
    """The text of a kernel.

    Args:
        kernel: any kernel, also one that breaks the schema.
        locations: end every line with `loc("file":line:column)` where the place is known.
    """
    printer = _Printer(locations)
    version = f" {quote(kernel.version)}" if kernel.version else ' ""'
    printer.lines.append(f"kernel{version} {{")
    for function in kernel.functions:
        printer.function(function)
    printer.lines.append("}")
    return "\n".join(printer.lines) + "\n"


class _Printer:
    """Lines so far, and the names given to values in the scopes that are open."""

    def __init__(self, locations: bool) -> None:
        self.lines: list[str] = []
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.opened: list[str] = []

    def function(self, function: Function) -> None:
        self.names, self.taken, self.opened = {}, set(), []
        said = function.arg_attributes or ({},) * len(function.args)
        args = [
            self.define(arg) + (f" {attributes(named)}" if named else "") + self.loc(arg.loc)
            for arg, named in zip(function.args, said, strict=True)
        ]
        visibility = "public" if function.public else "private"
        results = f" -> ({', '.join(type_text(r) for r in function.results)})" if function.results else ""
        body = function.body
        symbol = function.name if _WORD.fullmatch(function.name) else quote(function.name)
        if not body.blocks:
            self.lines.append(f"  func {visibility} @{symbol}({', '.join(args)}){results}{self.loc(function.loc)}")
            return
        self.lines.append(f"  func {visibility} @{symbol}({', '.join(args)}){results} {{")
        self.blocks(body, "  ", known_entry=body.blocks[0].args == function.args)
        self.lines.append("  }" + self.loc(function.loc))

    def blocks(self, region: Region, indent: str, known_entry: bool = False) -> None:
        """The blocks of a region; the header of the entry is left out where it says nothing new."""
        mark = len(self.opened)
        # A branch may pass values on before the block that defines them is printed.
        for number, block in enumerate(region.blocks):
            plain = number == 0 and block.label == "bb0" and (known_entry or not block.args)
            if not plain:
                args = ", ".join(self.define(arg) + self.loc(arg.loc) for arg in block.args)
                self.lines.append(f"{indent}^{block.label}" + (f"({args}):" if args else ":"))
            self.ops(block, indent + "  ")
        for name in self.opened[mark:]:
            self.taken.discard(name)
        del self.opened[mark:]

    def ops(self, block: Block, indent: str) -> None:
        for op in block.ops:
            self.op(op, indent)

    def op(self, op: Op, indent: str) -> None:
        line = f"{indent}{op.name if _WORD.fullmatch(op.name) else quote(op.name)}"
        shown = dict(op.attributes)
        value = shown.get("value")
        if op.name == "arith.constant" and isinstance(value, Constant):
            line += " " + constant_text(value)
            shown = {}
        if op.operands:
            line += " " + ", ".join(map(self.use, op.operands))
        if op.successors:
            targets = [
                f"^{s.label}" + (f"({', '.join(map(self.use, s.operands))})" if s.operands else "")
                for s in op.successors
            ]
            line += " -> " + ", ".join(targets)
        usual = DEFAULTS.get(op.name, {})
        shown = {k: v for k, v in shown.items() if v is not None and not (k in usual and usual[k] == v)}
        if shown:
            line += " " + attributes(shown)
        # Results are not visible in the op's own regions, but their names must not clash with those inside.
        if not op.regions:
            results = ", ".join(map(self.define, op.results))
            self.lines.append((f"{indent}{results} = {line.lstrip()}" if results else line) + self.loc(op.loc))
            return
        results = ", ".join(map(self.define, op.results))
        line = f"{indent}{results} = {line.lstrip()}" if results else line
        for number, region in enumerate(op.regions):
            self.lines.append(line + (" ({" if number == 0 else "{"))
            self.blocks(region, indent)
            line = f"{indent}}}, "
        self.lines.append(f"{indent}}}){self.loc(op.loc)}")

    def define(self, value: Value) -> str:
        """`%name: type`, with a name that no value in scope has."""
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = self.unique(value.name)
        return f"%{name}: {type_text(value.type)}"

    def use(self, value: Value) -> str:
        name = self.names.get(value)
        if name is None:  # defined in a block that is printed later
            name = self.names[value] = self.unique(value.name)
        return f"%{name}"

    def unique(self, wanted: str) -> str:
        numbered = _NUMBERED.fullmatch(wanted)
        base = f"{numbered[1]}.{numbered[2]}" if numbered else wanted
        base = _NAME.sub("_", base) or "v"
        name, count = base, 0
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        self.opened.append(name)
        return name

    def loc(self, loc: Location) -> str:
        return f" loc({location_text(loc)})" if self.locations and (loc.file or loc.name) else ""


def location_text(loc: Location) -> str:
    """What stands inside `loc(...)`: the frame and its callers, innermost first."""
    frame = f"{quote(loc.file)}:{loc.line}:{loc.column}" if loc.file else ""
    if loc.name:
        frame = f"{quote(loc.name)}({frame})" if frame else quote(loc.name)
    for caller in loc.callers:
        frame = f"callsite({frame} at {location_text(caller)})"
    return frame


def attributes(named: Mapping[str, Any]) -> str:
    """`{key = value, ...}` in the order of the keys."""
    items = (f"{key if _WORD.fullmatch(key) else quote(key)} = {attribute_text(named[key])}" for key in sorted(named))
    return "{" + ", ".join(items) + "}"


def attribute_text(value: Any) -> str:
    """One attribute value as the reader takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        mantissa, mark, exponent = repr(value).partition("e")
        return mantissa + (".0" if mark and "." not in mantissa else "") + mark + exponent
    if isinstance(value, tuple):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    if isinstance(value, Mapping):
        return attributes(value)
    if isinstance(value, Constant):
        return f"dense<{constant_text(value, bare=True)}> : {type_text(value.type)}"
    if isinstance(value, Scalar | Pointer | Tensor | Descriptor):
        return type_text(value)
    return str(value)


def constant_text(value: Constant, bare: bool = False) -> str:
    """`3`, `0.5`, `dense<3>` or `dense<[1, 2]>`; without `dense<>` if `bare`."""
    kind = element_of(value.type)
    assert isinstance(kind, Scalar)
    if kind.is_float:
        words: Iterable[str] = (literal(bits, kind.kind) for bits in value.elements)
    elif kind.bits == 1:
        words = ("true" if bits else "false" for bits in value.elements)
    else:
        words = map(str, value.integers())
    text = ", ".join(words)
    if not value.is_splat:
        text = f"[{text}]"
    return text if bare or not isinstance(value.type, Tensor) else f"dense<{text}>"


def type_text(type_: Type) -> str:
    """The type as TTIR has it, also for a tile of rank 0."""
    return f"tensor<{type_.element}>" if isinstance(type_, Tensor) and not shape_of(type_) else str(type_)


def quote(text: str) -> str:
    """A string literal: quotes, backslashes and what is not printable ASCII escaped as MLIR does."""
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    return "".join(f"\\{byte:02X}" for byte in character.encode(errors="replace"))
