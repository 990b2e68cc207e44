"""What `tt.clampf` makes of NaN where the bounds are `-limit` and `limit`.

NaN gives the lower bound where it is not propagated. But NVIDIA's back end clamps to such bounds with one
`min.xorsign.abs`, which gives the limit. It knows them by their form: two constants, or a tile and its negative.
"""

from __future__ import annotations

from ..ir.tile import Kernel, Op, Value, walk
from ..ir.types import Scalar, element_of
from .constants import splat_bits
from .rewrite import Rewriter

_SUBTRACTED = frozenset(("f16", "f32"))
_CONSTANT = _SUBTRACTED | {"bf16"}


class _Clip(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.makers: dict[Value, Op] = {}
        for function in kernel.functions:
            for op in walk(function.body):
                self.makers.update(dict.fromkeys(op.results, op))

    def op(self, op: Op) -> list[Op]:
        new = self.rebuilt(op)
        if op.name != "tt.clampf" or op.attributes.get("propagateNan", "none") != "none" or not self.is_clip(op):
            return [new]
        return [new.replace(attributes={**new.attributes, "nan": "high"})]

    def is_clip(self, op: Op) -> bool:
        element = element_of(op.result.type)
        _, low, high = op.operands
        least, most = splat_bits(low, self.makers), splat_bits(high, self.makers)
        if not isinstance(element, Scalar):
            return False
        if least is not None and most is not None:
            return element.kind in _CONSTANT and least == most | 1 << (element.bits - 1) and least != most
        negation = self.makers.get(low)
        if negation is None or element.kind not in _SUBTRACTED:
            return False
        if negation.name == "arith.negf":  # as Triton 3.8 and newer write -limit
            return negation.operands[0] == high
        if negation.name != "arith.subf":
            return False
        return splat_bits(negation.operands[0], self.makers) == 0 and negation.operands[1] == high


def clip(kernel: Kernel) -> Kernel:
    """Mark the clamps that give the upper bound for NaN by the attribute `nan`."""
    if not any(op.name == "tt.clampf" for function in kernel.functions for op in walk(function.body)):
        return kernel
    return _Clip(kernel).kernel(kernel)
