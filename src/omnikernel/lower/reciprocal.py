"""Divisions of lanes by one scalar: three multiplications instead, with the same bits. An AdamW step takes 0.72 of its time.

With r = 1/y rounded to nearest, q = x*r, e = x - q*y (exact in one fma), q + e*r rounded is x/y rounded, as long as nothing
over- or underflows on the way and the significand of y is not all ones (Markstein, "Computation of elementary functions on
the IBM RISC System/6000 processor", 1990; Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division
when the divisor is known in advance", 2004). A chunk with a lane for which that is not sure is divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.types import F32
from ..ir.types import I1 as MASK
from ..llvm.emit import FLOAT, I1, LType, LValue
from .lanes import Lanes

if TYPE_CHECKING:
    from .evaluate import Evaluator, Placed

DIVISIONS = frozenset({"arith.divf", "tt.precise_divf"})
# Exponents between which all is sure: of the divisor, and of what is divided. The last bit of x - q*y is at least
# 2^(-100 - 48); the quotient is between 2^-121 and 2^121.
DIVISOR, DIVIDEND = (-20, 20), (-100, 100)
_SIGN = 1 << 31
_SIGNIFICAND = (1 << 23) - 1
_FUSED = frozenset({"fma", "neon"})


def by_reciprocal(ev: Evaluator, placed: Sequence[Placed], level: int, lanes: int) -> Placed | None:
    """The quotient; None where a division is as good.

    Args:
        ev: the evaluator of the nest.
        placed: what is divided, and by what.
        level: of the quotient.
        lanes: of the quotient.
    """
    (x, _), (y, outside) = placed
    pays = ev.function.multiplies and lanes >= 4 and not y.lanes and outside < level == ev.level and not ev.flow
    if not pays or x.type != F32 or y.type != F32 or not _FUSED & ev.b.module.features:
        return None
    b = ev.b
    scalar = y.raw(b)
    reciprocal, sure = ev.once(("reciprocal", scalar.text), outside, _prepare, ev, scalar)
    divisor, factor = (ev.spread((lane, outside), lanes).raw(b) for lane in (y, reciprocal))
    integers = LType("i32", lanes)
    with ev.at(level):
        dividend = ev.spread(placed[0], lanes).raw(b)
        bits = b.cast("bitcast", dividend, "i32")
        size = b.and_(bits, b.integer(integers, _SIGN - 1))
        low, span = (b.integer(integers, part) for part in _between(*DIVIDEND))
        between = b.icmp("ult", b.sub(size, low), span)
        fits = b.or_(between, b.icmp("eq", size, b.zero(integers)))
        all_fit = b.call(f"llvm.vector.reduce.and.{fits.type.suffix}", I1, fits)

        def multiplied() -> list[LValue]:
            first = b.fmul(dividend, factor)
            rest = b.fma(b.fneg(first), divisor, dividend)
            quotient = b.cast("bitcast", b.fma(rest, factor, first), "i32")
            signed = b.or_(quotient, b.and_(bits, b.integer(integers, _SIGN)))  # of -0, too
            return [b.cast("bitcast", signed, "float")]

        unsure = b.not_(b.and_(all_fit, sure.raw(b)))
        (quotient,) = b.branch(unsure, lambda: [b.fdiv(dividend, divisor)], multiplied, rare=True)
    return Lanes(F32, quotient), level


def _prepare(ev: Evaluator, divisor: LValue) -> tuple[Lanes, Lanes]:
    """The reciprocal, and whether the divisor is one by which lanes may be divided so."""
    b, integer = ev.b, LType("i32")
    bits = b.cast("bitcast", divisor, "i32")
    low, span = (b.integer(integer, part) for part in _between(*DIVISOR))
    significand = b.integer(integer, _SIGNIFICAND)
    sure = b.icmp("ult", b.sub(bits, low), span)  # positive, too
    sure = b.and_(sure, b.icmp("ne", b.and_(bits, significand), significand))
    return Lanes(F32, b.fdiv(b.real(FLOAT, 1.0), divisor)), Lanes(MASK, sure)


def _between(low: int, high: int) -> tuple[int, int]:
    """The bits of the lower of two powers of two, and the distance to the bits of the other."""
    return (127 + low) << 23, (high - low) << 23
