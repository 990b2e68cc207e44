"""The reciprocal square root in f32 without a division or a root, each of which takes a processor a dozen cycles.

Stage: lowering. In and out: `Num`, any number of lanes.
"""

from __future__ import annotations

from . import x86
from .number import Num

FEWEST = 4  # lanes of the shortest register


def rsqrt(x: Num) -> Num:
    """1 / sqrt(x): two correct roundings."""
    return 1.0 / x.sqrt()


def rsqrt_f32(x: Num) -> Num:
    """1 / sqrt(x): where the processor has a guess of 14 bits, by a step of Newton's method from there.

    Scalars take the same way, so that a value does not depend on the lanes it is computed in.
    """
    b, lanes = x.b, x.v.lanes
    if "avx512vl" not in b.module.features:
        return rsqrt(x)
    if lanes < FEWEST:
        padded = b.shuffle(x.v, None, [*range(lanes), *[0] * (FEWEST - lanes)]) if lanes else b.splat(x.v, FEWEST)
        found = rsqrt_f32(x.new(padded)).v
        return x.new(b.shuffle(found, None, range(lanes)) if lanes else b.extract(found, 0))
    guess = x86.reciprocal_root(b, x.v)
    if guess is None:
        return rsqrt(x)
    y = x.new(guess)
    rest = (-(x * y)).mad(y, 1.0)
    value = (y * 0.5).mad(rest, y)
    return x.new(x86.reciprocal_root_specials(b, x.v, value.v) or value.v)
