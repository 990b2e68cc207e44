"""Imports every family of handlers, and says which ops can be lowered."""

from __future__ import annotations

from . import arith, atomic, casts, control, dot, function, math, memory, reduce  # noqa: F401
from .evaluate import EVALUATE
from .function import STATEMENTS
from .lanes import ELEMENTWISE

# Terminators that the op around them reads itself.
_TERMINATORS = frozenset({"scf.yield", "scf.condition", "tt.reduce.return"})
LOWERED = frozenset(ELEMENTWISE) | frozenset(EVALUATE) | frozenset(STATEMENTS) | _TERMINATORS
