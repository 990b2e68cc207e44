"""Imports every family of handlers, and says which ops can be lowered."""

from __future__ import annotations

from . import (  # noqa: F401
    arith,
    atomic,
    casts,
    control,
    dot,
    function,
    linear_rules,
    lookup,
    math,
    memory,
    network,
    pointwise,
    printing,
    reduce,
    region,
    scan,
    shape,
)
from .evaluate import EVALUATE
from .function import STATEMENTS
from .lanes import ELEMENTWISE

# Terminators that the op around them reads itself, and what a pass rewrites to other ops.
_ELSEWHERE = frozenset({"scf.yield", "scf.condition", "tt.dot_scaled"})
LOWERED = frozenset(ELEMENTWISE) | frozenset(EVALUATE) | frozenset(STATEMENTS) | _ELSEWHERE
