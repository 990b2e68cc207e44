"""The custom forms that have regions or successors, and constants: one function an op.

Each starts behind the op's name and reads to the end of the op; `names` are the result tokens before the `=`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.tile import Op, Region, Successor, Value
from ..ir.types import I1, INDEX, Type
from .forms import normalise

if TYPE_CHECKING:
    from .parse import ModuleReader

Special = Callable[["ModuleReader", str, list[str]], Op]
SPECIAL: dict[str, Special] = {}


def _reads(*ops: str) -> Callable[[Special], Special]:
    """Registers the reader of ops."""

    def register(read: Special) -> Special:
        SPECIAL.update(dict.fromkeys(ops, read))
        return read

    return register


def _assignments(reader: ModuleReader) -> tuple[list[str], list[Value]]:
    """`(%a = %x, ...)`: the names of block arguments, and the values they start from."""
    names: list[str] = []
    values: list[Value] = []
    reader.expect("(")
    while not reader.accept(")"):
        names.append(reader.take())
        reader.expect("=")
        values.append(reader.use(reader.take()))
        reader.accept(",")
    return names, values


def _loop_region(reader: ModuleReader, names: list[str], types: list[Type]) -> Region:
    """A region whose block arguments were listed before it."""
    with reader.scope():
        args = [reader.define(token, type_) for token, type_ in zip(names, types, strict=True)]
        return reader.region(args, "scf.yield")


def _successor(reader: ModuleReader) -> Successor:
    """`^label(%a, %b : T, T)`"""
    label = reader.take()
    if label[0] != "^":
        reader.fail("expected a block", reader.at - 1)
    operands: list[Value] = []
    if reader.accept("("):
        while not reader.accept(":"):
            operands.append(reader.use(reader.tokens[reader.at]))
            reader.at += 1
            reader.accept(",")
        while not reader.accept(")"):
            reader.type()
            reader.accept(",")
    return Successor(label[1:], tuple(operands))


@_reads("arith.constant")
def _constant(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    attributes = reader.attributes()
    token = reader.take()
    type_: Type | None = I1 if token in ("true", "false") else None
    if type_ is None:
        reader.expect(":")
        type_ = reader.type()
    value = reader.constant(token, type_, start)
    return reader.finish(name, names, [], [type_], attributes | {"value": value}, start)


@_reads("scf.for")
def _for(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    unsigned = reader.accept("unsigned")
    index = reader.take()
    operands = []
    for word in ("=", "to", "step"):
        reader.expect(word)
        operands.append(reader.use(reader.take()))
    carried: list[str] = []
    types: list[Type] = []
    if reader.accept("iter_args"):
        carried, initial = _assignments(reader)
        operands += initial
        reader.expect("->")
        types = reader.type_list()
    counter = reader.type() if reader.accept(":") else INDEX
    if len(carried) != len(types):
        reader.fail(f"{len(carried)} values are carried, but {len(types)} types are given", start)
    region = _loop_region(reader, [index, *carried], [counter, *types])
    attributes = reader.attributes()
    if unsigned:
        attributes["unsigned"] = True
    normalise(name, attributes)
    return reader.finish(name, names, operands, types, attributes, start, (region,))


@_reads("scf.while")
def _while(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    carried: list[str] = []
    operands: list[Value] = []
    if reader.tokens[reader.at] == "(":
        carried, operands = _assignments(reader)
    reader.expect(":")
    entering, types = reader.functional(start)
    if len(carried) != len(entering):
        reader.fail(f"{len(carried)} values are carried, but {len(entering)} types are given", start)
    with reader.scope():
        before = reader.region([reader.define(t, type_) for t, type_ in zip(carried, entering, strict=True)])
    reader.expect("do")
    after = reader.region(ending="scf.yield")
    attributes = reader.attributes() if reader.accept("attributes") else {}
    return reader.finish(name, names, operands, types, attributes, start, (before, after))


@_reads("scf.if")
def _if(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    condition = reader.use(reader.take())
    types = reader.type_list() if reader.accept("->") else []
    then = reader.region(ending="scf.yield")
    other = reader.region(ending="scf.yield") if reader.accept("else") else Region(())
    return reader.finish(name, names, [condition], types, reader.attributes(), start, (then, other))


@_reads("scf.execute_region")
def _execute_region(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    reader.accept("no_inline")
    types = reader.type_list() if reader.accept("->") else []
    region = reader.region()
    return reader.finish(name, names, [], types, reader.attributes(), start, (region,))


@_reads("scf.index_switch")
def _index_switch(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    chosen = reader.use(reader.take())
    attributes = reader.attributes()
    types = reader.type_list() if reader.accept("->") else []
    cases, regions = [], []
    while reader.accept("case"):
        cases.append(int(reader.take()))
        regions.append(reader.region(ending="scf.yield"))
    reader.expect("default")
    regions.insert(0, reader.region(ending="scf.yield"))
    attributes["cases"] = tuple(cases)
    return reader.finish(name, names, [chosen], types, attributes, start, tuple(regions))


@_reads("cf.br")
def _branch(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    target = _successor(reader)
    return reader.finish(name, names, [], [], reader.attributes(), start, successors=(target,))


@_reads("cf.cond_br")
def _conditional(reader: ModuleReader, name: str, names: list[str]) -> Op:
    start = reader.at
    condition = reader.use(reader.take())
    attributes: dict[str, Any] = {}
    if reader.accept("weights"):
        reader.expect("(")
        attributes["branch_weights"] = reader.attribute()
        reader.expect(")")
    reader.expect(",")
    true = _successor(reader)
    reader.expect(",")
    targets = (true, _successor(reader))
    return reader.finish(name, names, [condition], [], attributes | reader.attributes(), start, successors=targets)


@_reads("cf.switch")
def _switch(reader: ModuleReader, name: str, names: list[str]) -> Op:
    """`cf.switch %v : i32, [ default: ^a, 42: ^b(%x : T) ]`"""
    start = reader.at
    chosen = reader.use(reader.take())
    reader.expect(":")
    reader.type()
    reader.expect(",")
    reader.expect("[")
    cases, targets = [], []
    while not reader.accept("]"):
        case = reader.take()
        if case != "default":
            cases.append(int(case))
        reader.expect(":")
        targets.append(_successor(reader))
        reader.accept(",")
    attributes = reader.attributes() | {"case_values": tuple(cases)}
    return reader.finish(name, names, [chosen], [], attributes, start, successors=tuple(targets))
