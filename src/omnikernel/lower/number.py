"""LLVM values with Python's operators, so that a polynomial reads like one.

Stage: lowering. In: a builder and a value. Out: more instructions in the builder. A `Num` is an integer or a float,
scalar or vector; Python numbers become constants of the other operand's type.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.emit import Builder, LType, LValue
from .arith import has_fma, per_lane
from .convert import single
from .divide import ROUNDS


class Num:
    """A value and the builder that its operators write to. Comparisons are ordered: false for NaN."""

    __slots__ = ("b", "v")

    def __init__(self, b: Builder, v: LValue) -> None:
        self.b = b
        self.v = v

    # --- constants and types ---------------------------------------------------------------------------------------------

    @property
    def type(self) -> LType:
        return self.v.type

    @property
    def is_double(self) -> bool:
        return self.v.type.scalar == "double"

    def const(self, value: float | int) -> Num:
        """A constant of this value's type."""
        make = self.b.real if self.type.is_float else self.b.integer
        return Num(self.b, make(self.type, value))  # type: ignore[arg-type]

    def of(self, value: Num | float | int) -> Num:
        return value if isinstance(value, Num) else self.const(value)

    def new(self, v: LValue) -> Num:
        return Num(self.b, v)

    # --- arithmetic ------------------------------------------------------------------------------------------------------

    def _op(self, float_code: str, integer_code: str, other: Num | float | int, swap: bool = False) -> Num:
        code = float_code if self.type.is_float else integer_code
        left, right = (self.of(other), self) if swap else (self, self.of(other))
        return self.new(self.b.binary(code, left.v, right.v))

    def __add__(self, other: Num | float | int) -> Num:
        return self._op("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other: Num | float | int) -> Num:
        return self._op("fsub", "sub", other)

    def __rsub__(self, other: float | int) -> Num:
        return self._op("fsub", "sub", other, True)

    def __mul__(self, other: Num | float | int) -> Num:
        return self._op("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Num | float | int) -> Num:
        return self._op("fdiv", "sdiv", other)

    def __rtruediv__(self, other: float | int) -> Num:
        return self._op("fdiv", "sdiv", other, True)

    def __neg__(self) -> Num:
        return self.new(self.b.fneg(self.v)) if self.type.is_float else 0 - self

    def __and__(self, other: Num | int) -> Num:
        return self._op("and", "and", other)

    def __or__(self, other: Num | int) -> Num:
        return self._op("or", "or", other)

    def __xor__(self, other: Num | int) -> Num:
        return self._op("xor", "xor", other)

    def __invert__(self) -> Num:
        return self.new(self.b.not_(self.v))

    def __lshift__(self, amount: Num | int) -> Num:
        return self._op("shl", "shl", amount)

    def __rshift__(self, amount: Num | int) -> Num:
        """An arithmetic shift."""
        return self._op("ashr", "ashr", amount)

    def shift_down(self, amount: Num | int) -> Num:
        """A logical shift."""
        return self._op("lshr", "lshr", amount)

    def mad(self, y: Num | float, z: Num | float) -> Num:
        """self * y + z: fused where the target has it, else with two roundings."""
        if has_fma(self.b):
            return self.new(self.b.fma(self.v, self.of(y).v, self.of(z).v))
        return self * y + z

    def call(self, intrinsic: str, *others: Num) -> Num:
        """An LLVM intrinsic overloaded on its result."""
        return self.new(self.b.intrinsic(intrinsic, self.type, self.v, *(o.v for o in others)))

    def abs(self) -> Num:
        return self.call("fabs")

    def sqrt(self) -> Num:
        return self.call("sqrt")

    def copysign(self, sign: Num) -> Num:
        return self.call("copysign", sign)

    # --- comparison ------------------------------------------------------------------------------------------------------

    def compare(self, predicate: str, other: Num | float | int) -> Num:
        """An fcmp or icmp by its predicate."""
        right = self.of(other).v
        return self.new((self.b.fcmp if self.type.is_float else self.b.icmp)(predicate, self.v, right))

    def __lt__(self, other: Num | float | int) -> Num:
        return self.compare("olt" if self.type.is_float else "slt", other)

    def __le__(self, other: Num | float | int) -> Num:
        return self.compare("ole" if self.type.is_float else "sle", other)

    def __gt__(self, other: Num | float | int) -> Num:
        return self.compare("ogt" if self.type.is_float else "sgt", other)

    def __ge__(self, other: Num | float | int) -> Num:
        return self.compare("oge" if self.type.is_float else "sge", other)

    def equals(self, other: Num | float | int) -> Num:
        return self.compare("oeq" if self.type.is_float else "eq", other)

    def differs(self, other: Num | float | int) -> Num:
        """True for NaN."""
        return self.compare("une" if self.type.is_float else "ne", other)

    def is_nan(self) -> Num:
        return self.compare("uno", 0.0)

    def where(self, yes: Num | float | int, no: Num | float | int, like: Num | None = None) -> Num:
        """This i1 chooses; `like` gives the type where both are Python numbers."""
        shape = yes if isinstance(yes, Num) else no if isinstance(no, Num) else like
        assert shape is not None
        return self.new(self.b.select(self.v, shape.of(yes).v, shape.of(no).v))

    def at_most(self, limit: float) -> Num:
        """min(self, limit), keeping NaN, in one x86 instruction."""
        bound = self.const(limit)
        return (bound < self).where(bound, self)

    def at_least(self, limit: float) -> Num:
        """max(self, limit), keeping NaN, in one x86 instruction."""
        bound = self.const(limit)
        return (bound > self).where(bound, self)

    def any(self) -> Num:
        """Whether any lane of this i1 is set, as a scalar i1."""
        if not self.v.lanes:
            return self
        return self.new(self.b.call(f"llvm.vector.reduce.or.{self.type.suffix}", LType("i1"), self.v))

    # --- conversion ------------------------------------------------------------------------------------------------------

    def cast(self, opcode: str, scalar: str) -> Num:
        return self.new(self.b.cast(opcode, self.v, scalar))

    def bits(self) -> Num:
        return self.cast("bitcast", "i64" if self.is_double else "i32")

    def real(self) -> Num:
        """The float of these bits."""
        return self.cast("bitcast", "double" if self.type.bits == 64 else "float")

    def double(self) -> Num:
        return self.cast("fpext", "double")

    def single(self) -> Num:
        return self.new(single(self.b, self.v))

    def integer(self) -> Num:
        """A float truncated to the integer of its width, saturating; NaN gives 0."""
        to = self.type.of("i64" if self.is_double else "i32")
        return self.new(self.b.call(f"llvm.fptosi.sat.{to.suffix}.{self.type.suffix}", to, self.v))

    # --- rounding to integral values -------------------------------------------------------------------------------------

    def _rounded(self, intrinsic: str) -> Num | None:
        return self.call(intrinsic) if ROUNDS & self.b.module.features else None

    def nearest(self) -> Num:
        """To the nearest integral value, ties to even; the sign of zero is kept."""
        done = self._rounded("roundeven")
        if done:
            return done
        big = 2.0**52 if self.is_double else 2.0**23
        size = self.abs()
        return (size < big).where(((size + big) - big).copysign(self), self)

    def floor(self) -> Num:
        done = self._rounded("floor")
        if done:
            return done
        near = self.nearest()
        return (near > self).where(near - 1.0, near).copysign(self)

    def ceil(self) -> Num:
        return self._rounded("ceil") or -((-self).floor())

    def trunc(self) -> Num:
        return self._rounded("trunc") or self.abs().floor().copysign(self)

    def per_lane(self, symbol: str, *others: Num) -> Num:
        """A C library function, lane by lane, with a result of this type."""
        return self.new(per_lane(self.b, symbol, self.type, self.v, *(o.v for o in others)))


def horner(x: Num, coefficients: Sequence[float]) -> Num:
    """c0 + c1 x + c2 x^2 + ..."""
    total = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.mad(x, c)
    return total
