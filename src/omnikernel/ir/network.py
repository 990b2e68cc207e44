"""What the attributes of `tile.network` say: the steps of a sorting network on a flat tile."""

from __future__ import annotations

from dataclasses import dataclass

from .tile import Op, Value
from .types import I1, element_of


@dataclass(frozen=True, slots=True)
class Step:
    """One step on a flat tile whose element i has the partner i ^ (1 << bit).

    A swap gives an element the greater of the two where `parity(i & side) ^ turned`, else the smaller; `side` holds
    `bit` itself and at most one higher bit. A halving (`side` is 0) combines the two, the one with the bit unset first.
    """

    bit: int
    side: int = 0
    turned: int = 0

    @property
    def halves(self) -> bool:
        return self.side == 0


def steps_of(op: Op) -> list[Step]:
    """The steps of a network, in order."""
    return [Step(*step) for step in op.attributes["steps"]]


def comparison(op: Op) -> Op:
    """The op by which a network tells whether one element is greater than another."""
    element = element_of(op.result.type)
    operands = Value("x", element), Value("y", element)
    attributes = {"predicate": op.attributes["predicate"]}
    return Op(op.attributes["compare"], operands, (Value("greater", I1),), attributes, loc=op.loc)


def combination(op: Op) -> Op:
    """The op by which a network's halvings combine two elements."""
    element = element_of(op.result.type)
    operands = Value("x", element), Value("y", element)
    return Op(op.attributes["combine"], operands, (Value("combined", element),), loc=op.loc)
