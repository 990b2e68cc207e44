"""Objects of tile IR are frozen, and otherwise what a dataclass makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from omnikernel.ir.tile import UNKNOWN, Kernel, Location, Op, Region, Value
from omnikernel.ir.types import F32


def test_nothing_can_be_set() -> None:
    value = Value("x", F32)
    with pytest.raises(FrozenInstanceError):
        value.name = "y"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del value.name
    assert value.name == "x"
    assert not hasattr(value, "__dict__")


def test_fields_and_defaults() -> None:
    op = Op("tt.load", loc=UNKNOWN, results=(Value("x", F32),))
    assert [f.name for f in fields(op)][:3] == ["name", "operands", "results"]
    assert (op.name, op.operands, op.result.name, op.regions) == ("tt.load", (), "x", ())
    assert isinstance(op, Op)
    assert Op("tt.load").attributes is not op.attributes
    with pytest.raises(TypeError, match="name"):
        Op()  # type: ignore[call-arg]


def test_objects_are_equal_to_themselves_alone() -> None:
    first, second = Region(()), Region(())
    assert first != second
    assert len({first, second, first}) == 2


def test_one_field_can_be_replaced() -> None:
    kernel = replace(Kernel((), "3.7.1"), version="3.8.0")
    assert (kernel.functions, kernel.version) == ((), "3.8.0")


def test_locations_are_equal_where_their_fields_are() -> None:
    first, second = Location("k.py", 3, 1, "x"), Location("k.py", 3, 1, "x")
    assert first == second != Location("k.py", 3, 1, "y")
    assert len({first, second}) == 1
    assert first.callers == ()
    with pytest.raises(FrozenInstanceError):
        first.line = 4  # type: ignore[misc]
