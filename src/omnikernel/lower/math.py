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
from . import conversions, directed, exact, special, wide
from .arith import fma, maxnum, minnum, per_lane, result_element, rounded
from .casts import resize
from .lanes import REGISTER, Lanes, elementwise, is_narrow
from .number import Num
from .polynomials_exp import exp, exp2
from .polynomials_log import log, log2
from .polynomials_root import rsqrt, rsqrt_f32
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


CODY = "Cody-Waite reduction, own minimax polynomial"
LIBM = "C library"
ROOT = "quotient and root, each correctly rounded; f32 with AVX-512 a step of Newton's method"
WIDE = "f32 in f64 arithmetic; f64 by the C library"
MINIMAX = "own minimax polynomials in f64 arithmetic"
SERIES = "power series, own minimax polynomial beyond 8; f64 arithmetic"
LANES = "C library, f32 computed as f64"

_add("exp", exp, {"f32": 1.1, "f64": 1.2}, source=CODY, aliases=["__nv_fast_expf"])
_add("exp2", exp2, {"f32": 1.1, "f64": 1.2}, source=CODY)
_add("log", log, 1, source=CODY, aliases=["__nv_fast_logf"])
_add("log2", log2, 1, source=CODY, aliases=["__nv_fast_log2f"])
_add("sin", sin, {"f32": 1.5, "f64": 1}, source=CODY, aliases=["__nv_fast_sinf"])
_add("cos", cos, {"f32": 1.5, "f64": 1}, source=CODY, aliases=["__nv_fast_cosf"])
_add("sqrt", Num.sqrt, 0.5, aliases=["__nv_fsqrt_rn", "__nv_dsqrt_rn"])
_add("rsqrt", {"f32": rsqrt_f32, "f64": rsqrt}, {"f32": 1.5, "f64": 1.5}, source=ROOT)
_add("frsqrt_rn", {"f32": wide.single(rsqrt)}, 0.5, "rsqrt", "quotient and root in f64")  # right for every f32
_add("erf", {"f32": erf_f32, "f64": libm("erf")}, {"f32": 1.6, "f64": 1.5}, source="own minimax polynomials")
_add("tanh", {"f32": tanh_f32, "f64": libm("tanh")}, {"f32": 1.5, "f64": 2.5}, source="own minimax polynomials")


def _wide(name: str, function: Emitter, ulp: float = 2, reference: str = "", aliases: Sequence[str] = ()) -> None:
    """f32 by our formula in doubles, f64 by the C library's function of the name."""
    emit = {"f32": wide.single(function), "f64": libm(name)}
    _add(name, emit, {"f32": 0.52, "f64": ulp}, reference, WIDE, aliases)


_wide("expm1", wide.expm1)
_wide("exp10", wide.exp10, aliases=["__nv_fast_exp10f"])
_wide("log1p", wide.log1p)
_wide("log10", wide.log10, aliases=["__nv_fast_log10f"])
_wide("sinh", wide.sinh, 2.5)
_wide("cosh", wide.cosh, 2.5)
_wide("asinh", wide.asinh, 2.5)
_wide("acosh", wide.acosh, 2.5)
_wide("atanh", wide.atanh, 2.5)
_wide("atan", wide.atan)
_wide("atan2", wide.atan2)
_wide("asin", wide.asin)
_wide("acos", wide.acos)
_wide("tan", wide.tan, aliases=["__nv_fast_tanf"])
_wide("pow", wide.power, aliases=["__nv_fast_powf"])
_wide("cbrt", wide.cbrt, 4)
_wide("hypot", wide.hypot)
_add("erfc", {"f32": wide.single(special.erfc), "f64": libm("erfc")}, {"f32": 0.52, "f64": 6}, source=WIDE)
_add("erfcx", wide.single_and_double(special.erfcx), {"f32": 0.52, "f64": 4}, source=MINIMAX)
_add(
    "normcdf", {"f32": wide.single(special.normcdf), "f64": special.normcdf_f64}, {"f32": 0.52, "f64": 10}, source=WIDE
)
for _name, _narrow, _full in (
    ("erfinv", special.erfinv, special.erfinv_f64),
    ("erfcinv", special.erfcinv, special.erfcinv_f64),
    ("normcdfinv", special.normcdfinv, special.normcdfinv_f64),
):
    _add(_name, {"f32": wide.single(_narrow), "f64": _full}, {"f32": 0.52, "f64": 4}, source=MINIMAX)
_add("cyl_bessel_i0", wide.single_and_double(special.bessel_i0), {"f32": 0.52, "f64": 6}, source=SERIES)
_add("cyl_bessel_i1", wide.single_and_double(special.bessel_i1), {"f32": 0.52, "f64": 6}, source=SERIES)
for _name in ("lgamma", "tgamma", "j0", "j1", "y0", "y1"):
    _wide(_name, libm(_name), 10)
_add("powi", {"f32": wide.single(wide.power_of_integer), "f64": wide.power_of_integer_by_libm}, 2, "pow", WIDE)


_add("sinpi", wide.single_and_double(wide.sinpi), {"f32": 0.52, "f64": 1.5}, source=CODY)
_add("cospi", wide.single_and_double(wide.cospi), {"f32": 0.52, "f64": 1.5}, source=CODY)
for _name, _function, _core in (
    ("rcbrt", wide.rcbrt, libm("cbrt")),
    ("rhypot", wide.rhypot, wide.chained(libm("hypot"))),
    ("rnorm3d", wide.rhypot, wide.chained(libm("hypot"))),
    ("rnorm4d", wide.rhypot, wide.chained(libm("hypot"))),
):
    _add(_name, {"f32": wide.single(_function), "f64": wide.reciprocal(_core)}, {"f32": 0.52, "f64": 6}, source=WIDE)
for _name in ("norm3d", "norm4d"):
    _emit = {"f32": wide.single(wide.hypot), "f64": wide.chained(libm("hypot"))}
    _add(_name, _emit, {"f32": 0.52, "f64": 3}, source=WIDE)
_add("jn", {"i32": exact.jn}, 10, source=LANES)
_add("yn", {"i32": exact.yn}, 10, source=LANES)

# Exact functions.
_add("floor", Num.floor)
_add("ceil", Num.ceil)
_add("trunc", Num.trunc)
_add("rint", Num.nearest)
_add("nearbyint", Num.nearest)
_add("round", exact.round_away)
_add("llrint", lambda x: exact.to_integer(x.nearest()))
_add("llround", lambda x: exact.to_integer(exact.round_away(x)))
_add("fabs", Num.abs)
_add("copysign", Num.copysign)
_add("fma", lambda x, y, z: x.new(fma(x.b, x.v, y.v, z.v)), 0.5, aliases=["__nv_fma_rn", "__nv_fmaf_rn"])
_add("fmod", libm("fmod"), source=LIBM)
_add("remainder", libm("remainder"), source=LIBM)
_add("fdim", exact.positive_difference, 0.5)
_add("fmax", lambda x, y: x.new(maxnum(x.b, x.v, y.v)))
_add("fmin", lambda x, y: x.new(minnum(x.b, x.v, y.v)))
_add("saturate", {"f32": exact.saturate})
_add("nextafter", exact.next_after)
_add("ldexp", exact.ldexp, 0.5)
_add("scalbn", exact.ldexp, 0.5)
_add("logb", exact.logb)
_add("ilogb", exact.ilogb)
_add("isnan", exact.is_nan, aliases=["__nv_isnand"])
_add("isinf", exact.is_infinite, aliases=["__nv_isinfd"])
_add("finite", exact.is_finite, aliases=["__nv_isfinited"])
_add("signbit", exact.sign_bit, aliases=["__nv_signbitd"])
_add("fdividef", {"f32": lambda x, y: x / y}, 0.5, aliases=["__nv_fast_fdividef"])
for _letter, _kind in (("f", "f32"), ("d", "f64")):
    _add(f"{_letter}add_rn", {_kind: lambda x, y: x + y}, 0.5)
    _add(f"{_letter}sub_rn", {_kind: lambda x, y: x - y}, 0.5)
    _add(f"{_letter}mul_rn", {_kind: lambda x, y: x * y}, 0.5)
    _add(f"{_letter}div_rn", {_kind: lambda x, y: x / y}, 0.5)
    _add(f"{_letter}rcp_rn", {_kind: lambda x: 1.0 / x}, 0.5)

# Integers and bits.
BOTH = {"i32", "i64"}
_add("popc", dict.fromkeys(BOTH, exact.population), aliases=["__nv_popcll"])
_add("clz", dict.fromkeys(BOTH, exact.leading_zeros), aliases=["__nv_clzll"])
_add("ffs", dict.fromkeys(BOTH, exact.first_set), aliases=["__nv_ffsll"])
_add("brev", dict.fromkeys(BOTH, exact.reverse), aliases=["__nv_brevll"])
_add("abs", dict.fromkeys(BOTH, exact.absolute), aliases=["__nv_llabs"])
_add("mulhi", dict.fromkeys(BOTH, exact.high_signed), aliases=["__nv_mul64hi"])
_add("umulhi", dict.fromkeys(BOTH, exact.high_unsigned), aliases=["__nv_umul64hi"])
_add("mul24", {"i32": exact.product24})
_add("umul24", {"i32": exact.product24_unsigned})
_add("hadd", {"i32": exact.average})
_add("uhadd", {"i32": exact.average_unsigned})
_add("rhadd", {"i32": exact.average_up})
_add("urhadd", {"i32": exact.average_up_unsigned})
_add("sad", {"i32": exact.sum_of_difference})
_add("usad", {"i32": exact.sum_of_difference_unsigned})
_add("byte_perm", {"i32": exact.permute_bytes})
_add("float_as_int", {"f32": exact.bits}, aliases=["__nv_float_as_uint"])
_add("int_as_float", {"i32": exact.from_bits}, aliases=["__nv_uint_as_float"])
_add("double_as_longlong", {"f64": exact.bits})
_add("longlong_as_double", {"i64": exact.from_bits})
_add("double2hiint", {"f64": exact.high_word})
_add("double2loint", {"f64": exact.low_word})
_add("hiloint2double", {"i32": exact.from_words})
_add("rcp64h", {"f64": exact.reciprocal_high})


def _conversions() -> None:
    """Float to integer in each rounding, and the conversions that round to nearest or not at all."""
    to_whole: dict[str, Emitter] = {"rn": Num.nearest, "rz": Num.trunc, "rd": Num.floor, "ru": Num.ceil}
    for source, kind in (("float", "f32"), ("double", "f64")):
        for target, scalar in (("int", "i32"), ("ll", "i64")):
            for prefix in ("", "u"):
                for mode, whole in to_whole.items():
                    name = f"{source}2{prefix}{target}_{mode}"
                    _add(name, {kind: conversions.whole_number(whole, scalar, signed=not prefix)})
    for source, kind in (("int", "i32"), ("ll", "i64")):
        for target, scalar in (("float", "float"), ("double", "double")):
            for prefix, opcode in (("", "sitofp"), ("u", "uitofp")):
                _add(f"{prefix}{source}2{target}_rn", {kind: conversions.nearest(opcode, scalar)}, 0.5)
    _add("double2float_rn", {"f64": Num.single}, 0.5)


def _directed() -> None:
    """Arithmetic and conversions that round toward zero, down or up."""
    for mode in directed.MODES:
        for name, make in (
            ("add", directed.add),
            ("sub", directed.sub),
            ("mul", directed.mul),
            ("div", directed.div),
            ("rcp", directed.rcp),
            ("sqrt", directed.sqrt),
        ):
            for letter, kind in (("f", "f32"), ("d", "f64")):
                _add(f"{letter}{name}_{mode}", {kind: make(mode)}, 0, source="exact error of the rounded result")
        _add(f"fmaf_{mode}", {"f32": directed.fma(mode)}, 0, source="rounding to odd in f64")
        _add(f"fma_{mode}", {"f64": directed.fma(mode)}, 0, source="exact error of the rounded result")
        _add(
            f"double2float_{mode}", {"f64": directed.double_to_float(mode)}, source="exact error of the rounded result"
        )
        for source, kind in (("int", "i32"), ("ll", "i64")):
            for target, scalar in (("float", "float"), ("double", "double")):
                for prefix in ("", "u"):
                    emit = directed.from_integer(scalar, mode, signed=not prefix)
                    _add(f"{prefix}{source}2{target}_{mode}", {kind: emit}, source="exact error of the rounded result")


_conversions()
_directed()


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
        assert value.type.scalar == ("double" if element.kind == "f64" else "float"), op
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
