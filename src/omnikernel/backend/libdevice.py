"""The math library that kernels see as `triton.language.extra.libdevice`, and as NVIDIA's and AMD's of that name.

A table, name -> signatures, from which one function a name is made. The symbols are those of NVIDIA's libdevice
(CUDA Libdevice User's Guide), so a kernel that reaches for its functions directly gives the same TTIR; their meaning
on the CPU is the lowering's affair. f16 and bf16 arguments are computed in f32 and rounded once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from triton.language import core

Signature = tuple[str, ...]  # dtypes of the arguments
Rows = dict[Signature, tuple[str, str]]  # arguments -> (symbol, dtype of the result)

_NARROW = ("fp16", "bf16")

# `name` stands for __nv_<name>f on fp32 and __nv_<name> on fp64, with this many arguments.
_PLAIN = {
    1: """floor rsqrt ceil trunc exp2 sqrt rint nearbyint sin cos sinpi cospi tan log2 exp exp10 cosh sinh tanh atan
        asin acos log log10 log1p acosh asinh atanh expm1 cbrt rcbrt j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1 erf
        erfinv erfc erfcx erfcinv normcdfinv normcdf lgamma tgamma round logb""",
    2: "copysign nextafter atan2 hypot rhypot fmod remainder fdim",
    3: "norm3d rnorm3d fma",
    4: "norm4d rnorm4d",
}
# `name` stands for __nv_<name> on fp32.
_SINGLE = {
    1: "saturatef fast_sinf fast_cosf fast_log2f fast_logf fast_expf fast_tanf fast_exp10f fast_log10f",
    2: "fast_powf",
}
# Integers, by the symbols' own names. `n` arguments of one type that is also the result's.
_INTEGERS = """
    byte_perm 3 int32 byte_perm
    mulhi 2 int32 mulhi uint32 umulhi int64 mul64hi uint64 umul64hi
    mul24 2 int32 mul24 uint32 umul24
    brev 1 int32 brev int64 brevll
    hadd 2 int32 hadd uint32 uhadd
    rhadd 2 int32 rhadd uint32 urhadd
"""
# Everything else: name, then a signature and symbol each.
_OTHERS = """
    clz int32>int32 clz int64>int32 clzll
    popc int32>int32 popc int64>int32 popcll
    ffs int32>int32 ffs int64>int32 ffsll
    sad int32,int32,uint32>int32 sad uint32,uint32,uint32>uint32 usad
    abs int32>int32 abs int64>int64 llabs fp32>fp32 fabsf fp64>fp64 fabs
    rcp64h fp64>fp64 rcp64h
    fast_dividef fp32,fp32>fp32 fast_fdividef
    fast_tanhf fp32>fp32 tanhf
    rsqrt_rn fp32>fp32 frsqrt_rn
    llrint fp32>int64 llrintf fp64>int64 llrint
    llround fp32>int64 llroundf fp64>int64 llround
    ilogb fp32>int32 ilogbf fp64>int32 ilogb
    isnan fp32>int32 isnanf fp64>int32 isnand
    isinf fp32>int32 isinff fp64>int32 isinfd
    signbit fp32>int32 signbitf fp64>int32 signbitd
    finitef fp32>int32 finitef
    isfinited fp64>int32 isfinited
    yn int32,fp32>fp32 ynf int32,fp64>fp64 yn
    jn int32,fp32>fp32 jnf int32,fp64>fp64 jn
    ldexp fp32,int32>fp32 ldexpf fp64,int32>fp64 ldexp
    scalbn fp32,int32>fp32 scalbnf fp64,int32>fp64 scalbn
    pow fp32,int32>fp32 powif fp64,int32>fp64 powi fp32,fp32>fp32 powf fp64,fp64>fp64 pow
    int2double_rn int32>fp64 int2double_rn
    uint2double_rn uint32>fp64 uint2double_rn
    hiloint2double int32,int32>fp64 hiloint2double
    double2loint fp64>int32 double2loint
    double2hiint fp64>int32 double2hiint
    int_as_float int32>fp32 int_as_float
    float_as_int fp32>int32 float_as_int
    uint_as_float uint32>fp32 uint_as_float
    float_as_uint fp32>int32 float_as_uint
    longlong_as_double int64>fp64 longlong_as_double
    double_as_longlong fp64>int64 double_as_longlong
"""
_ROUNDINGS = ("rn", "rz", "rd", "ru")
# Conversions in every rounding: symbol without the rounding, from, to. Triton calls unsigned results signed.
_CONVERSIONS = (
    ("double2float", "fp64", "fp32"),
    ("double2int", "fp64", "int32"),
    ("double2uint", "fp64", "int32"),
    ("float2int", "fp32", "int32"),
    ("float2uint", "fp32", "int32"),
    ("int2float", "int32", "fp32"),
    ("uint2float", "uint32", "fp32"),
    ("float2ll", "fp32", "int64"),
    ("float2ull", "fp32", "int64"),
    ("double2ll", "fp64", "int64"),
    ("double2ull", "fp64", "int64"),
    ("ll2float", "int64", "fp32"),
    ("ull2float", "uint64", "fp32"),
    ("ll2double", "int64", "fp64"),
    ("ull2double", "uint64", "fp64"),
)


def _lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.strip().splitlines())


def _rounded() -> Iterator[tuple[str, Rows]]:
    """Arithmetic with an explicit rounding, and the conversions."""
    for mode in _ROUNDINGS:
        for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("rcp", 1), ("sqrt", 1)):
            single, double = f"__nv_f{op}_{mode}", f"__nv_d{op}_{mode}"
            yield f"{op}_{mode}", {("fp32",) * count: (single, "fp32"), ("fp64",) * count: (double, "fp64")}
        single, double = f"__nv_fmaf_{mode}", f"__nv_fma_{mode}"
        yield f"fma_{mode}", {("fp32",) * 3: (single, "fp32"), ("fp64",) * 3: (double, "fp64")}
        for stem, source, result in _CONVERSIONS:
            yield f"{stem}_{mode}", {(source,): (f"__nv_{stem}_{mode}", result)}


def _table() -> dict[str, Rows]:
    """Name -> signatures, for every name of the stub module of Triton 3.6 to 3.9."""
    table: dict[str, Rows] = dict(_rounded())
    for count, names in _PLAIN.items():
        for name in names.split():
            single, double = (f"__nv_{name}f", "fp32"), (f"__nv_{name}", "fp64")
            table[name] = {("fp32",) * count: single, ("fp64",) * count: double}
    for count, names in _SINGLE.items():
        for name in names.split():
            table[name] = {("fp32",) * count: (f"__nv_{name}", "fp32")}
    for name, width, *pairs in _lines(_INTEGERS):
        rows = zip(pairs[::2], pairs[1::2], strict=True)
        table[name] = {(kind,) * int(width): (f"__nv_{symbol}", kind) for kind, symbol in rows}
    for name, *pairs in _lines(_OTHERS):
        table[name] = {}
        for signature, symbol in zip(pairs[::2], pairs[1::2], strict=True):
            arguments, result = signature.split(">")
            table[name][tuple(arguments.split(","))] = (f"__nv_{symbol}", result)
    return table


TABLE = _table()


def chosen(name: str, given: Signature) -> Signature:
    """The signature of the table that a call with arguments of these dtypes uses.

    Floats are widened to what all of them fit in, f32 or f64; integers must be as declared.

    Raises:
        TypeError: no signature fits.
    """
    rows = TABLE[name]
    if given in rows:
        return given
    widest = "fp64" if "fp64" in given else "fp32"
    floats = (*_NARROW, "fp32", "fp64")
    widened = tuple(widest if kind in floats else kind for kind in given)
    if widened in rows:
        return widened
    accepted = ", ".join(f"({', '.join(row)})" for row in rows)
    raise TypeError(f"libdevice.{name} takes {accepted}; fp16 and bf16 pass as fp32. Got ({', '.join(given)})")


def _call(name: str, arguments: list[Any], semantic: Any) -> Any:
    tensors = [semantic.to_tensor(argument) for argument in arguments]
    given = tuple(tensor.dtype.name for tensor in tensors)
    wanted = chosen(name, given)
    cast = [
        tensor if have == want else semantic.cast(tensor, _like(tensor, core.dtype(want)))
        for tensor, have, want in zip(tensors, given, wanted, strict=True)
    ]
    rows = {
        tuple(core.dtype(kind) for kind in row): (symbol, core.dtype(result))
        for row, (symbol, result) in TABLE[name].items()
    }
    value = core.extern_elementwise("", "", cast, rows, is_pure=True, _semantic=semantic)
    narrow = {kind for kind in given if kind in (*_NARROW, "fp32", "fp64")}
    if len(narrow) == 1 and narrow <= set(_NARROW) and value.dtype.is_floating():
        value = semantic.cast(value, _like(value, core.dtype(narrow.pop())))
    return value


def _like(value: Any, dtype: Any) -> Any:
    return value.type.with_element_ty(dtype) if value.type.is_block() else dtype


def _function(name: str, count: int) -> Callable[..., Any]:
    """The function that kernels call; Triton reads its signature and passes `_semantic`."""
    names = [f"arg{index}" for index in range(count)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(each, kind) for each in names]
    parameters.append(inspect.Parameter("_semantic", kind, default=None))
    signature = inspect.Signature(parameters)

    def function(*arguments: Any, _semantic: Any = None, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named).arguments
        return _call(name, [bound[each] for each in names], _semantic)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"libdevice `{name}`: one of {', '.join(symbol for symbol, _ in TABLE[name].values())}."
    function.__dict__["__signature__"] = signature
    made: Callable[..., Any] = core.extern(function)
    return made


globals().update({name: _function(name, len(next(iter(rows)))) for name, rows in TABLE.items()})
