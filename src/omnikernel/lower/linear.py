"""Linear forms: the part of an integer tile that is a sum of loop indices times strides.

An address is `root + constant + sum(terms) + pattern * scale`, where every term belongs to a level of the loop nest, so
that each loop advances a pointer of its own and the innermost one sees a single base. Terms are i64 and are taken not
to wrap within a tile: an offset that did would be out of bounds on any machine.
"""

from __future__ import annotations

import functools
from itertools import pairwise

from ..ir.frozen import frozen_value
from ..llvm.emit import LValue

Term = tuple[int, LValue]  # (level, i64 scalar)


@frozen_value
class Linear:
    """`constant + sum(terms) + pattern[lane] * scale` in units of elements.

    `scale` is a run-time factor of the pattern, None for 1.
    """

    constant: int = 0
    terms: tuple[Term, ...] = ()
    pattern: tuple[int, ...] = ()
    scale: Term | None = None
    lanes_at: int = 0  # the level of the loop that the pattern belongs to

    @property
    def uniform(self) -> bool:
        return not self.pattern

    @property
    def stride(self) -> int | None:
        """The constant distance between neighbouring lanes; None where there is none."""
        if self.scale or not self.pattern:
            return None
        return arithmetic_step(self.pattern)

    @property
    def level(self) -> int:
        """The innermost level the form depends on."""
        found = self.lanes_at if self.pattern else 0
        for level, _ in (*self.terms, self.scale) if self.scale else self.terms:
            found = max(found, level)
        return found


@functools.lru_cache(maxsize=256)  # patterns are long, and few
def arithmetic_step(pattern: tuple[int, ...]) -> int | None:
    """The step of an arithmetic progression; None for any other pattern."""
    step = pattern[1] - pattern[0] if len(pattern) > 1 else 0
    return step if all(b - a == step for a, b in pairwise(pattern)) else None


def add(a: Linear, b: Linear) -> Linear | None:
    """a + b; None where the lanes of both vary by different run-time strides."""
    pattern, scale = a.pattern, a.scale
    if b.pattern:
        if pattern and (scale or b.scale):
            return None
        pattern, scale = (
            (tuple(x + y for x, y in zip(pattern, b.pattern, strict=True)), None) if pattern else (b.pattern, b.scale)
        )
        if not any(pattern):
            pattern, scale = (), None
    return Linear(a.constant + b.constant, a.terms + b.terms, pattern, scale, max(a.lanes_at, b.lanes_at))
