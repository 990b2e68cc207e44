"""Tile IR: ordered SSA with regions, as plain frozen dataclasses.

    kernel   = Kernel(functions, entry)            a module; one public function, any number of private ones
    function = Function(name, args, results, body, ...)
    region   = Region(blocks)                      blocks[0] is the entry; a nested region of scf or tt.reduce has one
    block    = Block(label, args, ops)             the last op is a terminator
    op       = Op(name, operands, results, attributes, regions, successors, loc)
    value    = Value(name, type, loc)              the result of an op or the argument of a block

Values, ops and blocks compare by identity. Passes never mutate: they build new ops (`Op.replace`) and map old
values to new ones. Attribute values are Python's: int, bool, str (also for MLIR enum keywords such as `slt`),
float, `Constant`, types, and tuples of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .frozen import frozen, frozen_value
from .types import Scalar, Tensor, Type, element_of


@frozen_value
class Location:
    """Where the user wrote it: the innermost frame outside Triton's own library, and the chain of callers.

    `file` is "" where TTIR does not say. `callers` are the call sites, innermost first.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""
    callers: tuple[Location, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else "unknown location"


UNKNOWN = Location()


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of `arith.constant`: bit patterns as unsigned integers, one for a scalar or a splat.

    `elements` has length 1 or the number of elements of the tensor, in row-major order.
    """

    elements: tuple[int, ...]
    type: Type

    @property
    def is_splat(self) -> bool:
        return len(self.elements) == 1

    def integers(self) -> tuple[int, ...]:
        """The elements as signed integers (i1 as 0 or 1). Only for integer types."""
        kind = element_of(self.type)
        assert isinstance(kind, Scalar) and kind.is_integer
        if kind.bits == 1:
            return self.elements
        top = 1 << (kind.bits - 1)
        return tuple(e - 2 * top if e >= top else e for e in self.elements)


@frozen
class Value:
    """An SSA value. Its name keeps the user's variable name where TTIR has it."""

    name: str
    type: Type
    loc: Location = UNKNOWN

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@frozen
class Successor:
    """A branch target: the label of a block of the same region and the values passed to its arguments."""

    label: str
    operands: tuple[Value, ...] = ()


@frozen
class Op:
    """One operation. What its name means is one row of `ops.SCHEMA`."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    successors: tuple[Successor, ...] = ()
    loc: Location = UNKNOWN

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def replace(
        self,
        *,
        name: str | None = None,
        operands: tuple[Value, ...] | None = None,
        results: tuple[Value, ...] | None = None,
        attributes: Mapping[str, Any] | None = None,
        regions: tuple[Region, ...] | None = None,
        successors: tuple[Successor, ...] | None = None,
        loc: Location | None = None,
    ) -> Op:
        """The op with other parts where given; three times as fast as `dataclasses.replace`."""
        return Op(
            self.name if name is None else name,
            self.operands if operands is None else operands,
            self.results if results is None else results,
            self.attributes if attributes is None else attributes,
            self.regions if regions is None else regions,
            self.successors if successors is None else successors,
            self.loc if loc is None else loc,
        )

    def __repr__(self) -> str:
        return f"Op({self.name}, results={self.results}, operands={self.operands})"


@frozen
class Block:
    """Straight-line ops; `args` are phi nodes (or the parameters of a region)."""

    label: str
    args: tuple[Value, ...]
    ops: tuple[Op, ...]

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


@frozen
class Region:
    """A list of blocks; control enters at the first.

    `like` is the region that the reader copied this one from: the same but for its values, with none from outside.
    """

    blocks: tuple[Block, ...]
    like: Region | None = None

    @property
    def block(self) -> Block:
        """The only block of a structured region."""
        (block,) = self.blocks
        return block


@frozen
class Function:
    """A `tt.func`: the kernel itself (public) or a function that was not inlined (private).

    `arg_attributes[i]` holds what Triton says of parameter i, e.g. {"tt.divisibility": 16}.
    """

    name: str
    args: tuple[Value, ...]
    results: tuple[Type, ...]
    body: Region
    public: bool = True
    arg_attributes: tuple[Mapping[str, Any], ...] = ()
    loc: Location = UNKNOWN


@frozen
class Kernel:
    """A whole module. `version` is the Triton release whose text it was read from, for messages."""

    functions: tuple[Function, ...]
    version: str = ""

    @property
    def entry(self) -> Function:
        """The public function."""
        (entry,) = [f for f in self.functions if f.public]
        return entry

    def function(self, name: str) -> Function:
        """The function of that name. Raises KeyError where there is none."""
        for candidate in self.functions:
            if candidate.name == name:
                return candidate
        raise KeyError(name)


@lru_cache(maxsize=16)
def walk(region: Region) -> tuple[Op, ...]:
    """Every op of a region and of the regions inside it, in order, an op before those inside it.

    The passes ask for those of the same few regions again and again.
    """
    ops: list[Op] = []
    _collect(region, ops)
    return tuple(ops)


def _collect(region: Region, ops: list[Op]) -> None:
    for block in region.blocks:
        for op in block.ops:
            ops.append(op)
            for inner in op.regions:
                _collect(inner, ops)


def tensor_type(value: Value) -> Tensor:
    """The type of a value known to be a tile. Raises TypeError for any other."""
    if not isinstance(value.type, Tensor):
        raise TypeError(f"{value!r} is not a tile")
    return value.type
