"""The table of math functions: one row a function, for the ops of MLIR's math dialect and for libdevice's symbols.

Stage: lowering. In: operands as `Lanes`. Out: the result's `Lanes`. To add a function: one row here, its code in a
module `polynomials_*`; the tests sweep every row against its reference within the stated bound.

Narrow floats are widened, computed in f32 and rounded once. Errors are in ulp of the result, subnormals included:
nothing is flushed to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import UnsupportedOp
from ..ir.tile import Op
from ..ir.types import Scalar
from ..llvm.emit import Builder
from .arith import per_lane, result_element, rounded
from .casts import resize
from .lanes import REGISTER, Lanes, elementwise, is_narrow
from .number import Num
from .polynomials_exp import exp, exp2
from .polynomials_log import log, log2
from .polynomials_special import erf_f32, tanh_f32
from .polynomials_trig import cos, sin

Emitter = Callable[..., Num]


@dataclass(frozen=True, slots=True)
class Row:
    """One function.

    Attributes:
        name: as in libdevice, without `__nv_` and type suffix.
        emit: the emitter per kind of the first operand: `f32`, `f64`, `i32`, `i64`. Takes one `Num` an operand.
        ulp: the largest error per kind, in ulp; 0 is correctly rounded or exact.
        reference: the mpmath function of the same meaning, or what the tests compute instead.
        source: where the method comes from.
        aliases: further libdevice symbols, in full.
    """

    name: str
    emit: Mapping[str, Emitter]
    ulp: Mapping[str, float]
    reference: str
    source: str
    aliases: tuple[str, ...] = ()


MATH: dict[str, Row] = {}
SYMBOLS: dict[str, Row] = {}


def _add(
    name: str,
    emit: Emitter | Mapping[str, Emitter],
    ulp: float | Mapping[str, float] = 0,
    reference: str = "",
    source: str = "exact",
    aliases: Sequence[str] = (),
) -> None:
    emitters = emit if isinstance(emit, Mapping) else {"f32": emit, "f64": emit}
    bounds = ulp if isinstance(ulp, Mapping) else dict.fromkeys(emitters, ulp)
    row = Row(name, emitters, bounds, reference or name, source, tuple(aliases))
    assert name not in MATH, name
    MATH[name] = row
    for symbol in (f"__nv_{name}", f"__nv_{name}f", *aliases):
        SYMBOLS.setdefault(symbol, row)


def libm(symbol: str) -> Emitter:
    """A function of the C library, called lane by lane in the operands' type."""

    def emit(x: Num, *others: Num) -> Num:
        name = symbol if x.is_double else f"{symbol}f"
        return x.new(per_lane(x.b, name, x.type, x.v, *(o.v for o in others)))

    return emit


def rsqrt(x: Num) -> Num:
    """1 / sqrt(x): two correct roundings."""
    return 1.0 / x.sqrt()


CODY = "Cody-Waite reduction, own minimax polynomial"
LIBM = "the C library, lane by lane"
_add("exp", exp, 1, source=CODY, aliases=["__nv_fast_expf"])
_add("exp2", exp2, 1, source=CODY)
_add("log", log, 1, source=CODY, aliases=["__nv_fast_logf"])
_add("log2", log2, 1, source=CODY, aliases=["__nv_fast_log2f"])
_add("sin", sin, 1.5, source=CODY, aliases=["__nv_fast_sinf"])
_add("cos", cos, 1.5, source=CODY, aliases=["__nv_fast_cosf"])
_add("sqrt", Num.sqrt, aliases=["__nv_fsqrt_rn", "__nv_dsqrt_rn"])
_add("rsqrt", rsqrt, 1.5, source="quotient and root, each correctly rounded", aliases=["__nv_frsqrt_rn"])
_add("erf", {"f32": erf_f32, "f64": libm("erf")}, {"f32": 1.5, "f64": 1}, source="own minimax polynomials")
_add("tanh", {"f32": tanh_f32, "f64": libm("tanh")}, {"f32": 1.5, "f64": 2}, source="own minimax polynomials")
_add("floor", Num.floor)
_add("ceil", Num.ceil)


def _evaluate(b: Builder, op: Op, row: Row, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    element = result_element(op)
    assert isinstance(element, Scalar)
    first = operands[0].type
    assert isinstance(first, Scalar)
    kind = "f32" if is_narrow(first) else first.kind
    if kind not in row.emit:
        raise UnsupportedOp(
            f"{op.loc}: {row.name} of {first.kind} is not supported on the CPU; it takes {', '.join(row.emit)}"
        )
    value = row.emit[kind](*(Num(b, v.wide(b)) for v in operands)).v
    if element.is_float:
        return rounded(b, op, value)
    if value.type.scalar == "i1":
        return [Lanes(element, raw=resize(b, value, REGISTER[element.kind], signed=False))]
    return [Lanes(element, raw=resize(b, value, REGISTER[element.kind], signed=True))]


@elementwise(
    *(f"math.{name}" for name in ("exp", "exp2", "log", "log2", "sin", "cos", "rsqrt", "erf", "floor", "ceil"))
)
def lower_math(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """The function of the row of the op's name."""
    return _evaluate(b, op, MATH[op.name.removeprefix("math.")], operands)


@elementwise("tt.extern_elementwise")
def lower_extern(b: Builder, op: Op, operands: Sequence[Lanes]) -> Sequence[Lanes]:
    """A libdevice function, found by its symbol."""
    symbol = op.attributes["symbol"]
    row = SYMBOLS.get(symbol)
    if row is None:
        raise UnsupportedOp(
            f"{op.loc}: the external function {symbol!r} is not available on the CPU; "
            f"libdevice functions that are: {', '.join(sorted(MATH))}"
        )
    return _evaluate(b, op, row, operands)
