"""The schema, the reference and the lowering know the same ops."""

import pytest

from omnikernel.ir.ops import SCHEMA
from omnikernel.reference import MEANS


def test_every_op_has_a_meaning_and_no_other() -> None:
    assert set(MEANS) == set(SCHEMA)


def test_every_op_is_lowered_and_no_other() -> None:
    registry = pytest.importorskip("omnikernel.lower.registry")
    assert set(registry.LOWERED) == set(SCHEMA)
