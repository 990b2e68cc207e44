"""Compiles one elementwise handler alone and runs it over arrays: a harness for the tests beside it."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

import omnikernel.lower.arith
import omnikernel.lower.casts
import omnikernel.lower.math  # noqa: F401  (registers the handlers)
from omnikernel.ir.tile import Op, Value
from omnikernel.ir.types import Scalar
from omnikernel.llvm.emit import I8, I64, PTR, Builder, LValue, Module
from omnikernel.lower.lanes import ELEMENTWISE, Lanes, register_type

DTYPES: dict[str, Any] = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
# Functions of the C library that generated code may call.
_NAMES = """
    fma fmod fmodf sin cos sinf cosf tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp10 expm1 log10 log1p
    pow cbrt hypot erf erfc lgamma tgamma j0 j1 jn y0 y1 yn remainder remainderf
"""
LIBM = frozenset(_NAMES.split())

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
X86 = platform.machine() in ("x86_64", "AMD64")
# The CPU to compile for and the features that handlers may see.
AVX2 = ["sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2"]
AVX2 += ["lzcnt", "movbe"]
HOST = frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)
TARGETS: dict[str, tuple[str, frozenset[str]]] = {"host": (llvm.get_host_cpu_name(), HOST)}
if X86:
    TARGETS["sse2"] = ("x86-64", frozenset({"sse", "sse2"}))
    if HOST.issuperset(AVX2):
        TARGETS["avx2"] = ("x86-64-v3", frozenset(AVX2))


@cache
def machine(target: str, code: str = "jitdefault") -> llvm.TargetMachine:
    cpu, features = TARGETS[target]
    listed = llvm.get_host_cpu_features().flatten() if target == "host" else ",".join(f"+{f}" for f in sorted(features))
    triple = llvm.Target.from_triple(llvm.get_process_triple())
    return triple.create_target_machine(cpu=cpu, features=listed, opt=2, jit=code == "jitdefault", codemodel=code)


def load(b: Builder, kind: str, pointer: LValue, index: LValue, lanes: int) -> Lanes:
    type_ = register_type(Scalar(kind), lanes)
    if kind == "i1":
        byte = b.load(I8.of("i8") if not lanes else type_.of("i8"), b.gep("i8", pointer, index), 1)
        return Lanes(Scalar(kind), raw=b.cast("trunc", byte, "i1"))
    return Lanes(Scalar(kind), raw=b.load(type_, b.gep(type_.scalar, pointer, index), 1))


def store(b: Builder, value: Lanes, pointer: LValue, index: LValue) -> None:
    raw = value.raw(b)
    if raw.type.scalar == "i1":
        raw = b.cast("zext", raw, "i8")
    b.store(raw, b.gep(raw.type.scalar, pointer, index), 1)


def op_of(name: str, ins: Sequence[str], outs: Sequence[str], attributes: Mapping[str, Any]) -> Op:
    operands = tuple(Value(f"a{i}", Scalar(k)) for i, k in enumerate(ins))
    results = tuple(Value(f"r{i}", Scalar(k)) for i, k in enumerate(outs))
    return Op(name, operands, results, attributes)


def text_of(op: Op, lanes: int, features: frozenset[str], constants: Mapping[int, int | float] | None = None) -> str:
    """The module of `void k(ptr operand..., ptr result..., i64 n)`, which steps by `lanes` elements."""
    module = Module(features=features)
    b = Builder(module)
    ins = [str(v.type) for v in op.operands]
    pointers = [LValue(f"%p{i}", PTR) for i in range(len(ins) + len(op.results))]

    def body(index: LValue, _: list[LValue]) -> list[LValue]:
        operands = []
        for i, kind in enumerate(ins):
            type_ = register_type(Scalar(kind), lanes)
            if constants and i in constants:
                make = b.real if type_.is_float else b.integer
                operands.append(Lanes(Scalar(kind), raw=make(type_, constants[i])))  # type: ignore[operator]
            else:
                operands.append(load(b, kind, pointers[i], index, lanes))
        results = ELEMENTWISE[op.name](b, op, operands)
        for result, value, pointer in zip(results, op.results, pointers[len(ins) :], strict=True):
            assert result.type == value.type and result.lanes == lanes
            assert result.raw(b).type == register_type(value.type, lanes)  # type: ignore[arg-type]
            store(b, result, pointer, index)
        return []

    b.loop(b.integer(I64, 0), LValue("%n", I64), max(1, lanes), [], body)
    b.ret()
    b.function(f"define void @k({', '.join(str(p) for p in pointers)}, i64 %n) ")
    return module.text


@cache
def _compiled(key: Any) -> tuple[Any, int]:
    name, ins, outs, attributes, lanes, target, constants = key
    text = text_of(op_of(name, ins, outs, dict(attributes)), lanes, TARGETS[target][1], dict(constants))
    module = optimised(text, target)
    engine = llvm.create_mcjit_compiler(module, machine(target))
    engine.finalize_object()
    return engine, engine.get_function_address("k")


def optimised(text: str, target: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine(target), llvm.create_pipeline_tuning_options()))
    return module


def assembly(
    name: str,
    ins: Sequence[str],
    outs: Sequence[str],
    lanes: int = 8,
    target: str = "host",
    constants: Mapping[int, int | float] | None = None,
    **attributes: Any,
) -> str:
    """The assembly of the harness around one handler."""
    text = text_of(op_of(name, ins, outs, attributes), lanes, TARGETS[target][1], constants)
    return str(machine(target, "default").emit_assembly(optimised(text, target)))


def externals(
    name: str, ins: Sequence[str], outs: Sequence[str], lanes: int, target: str, **attributes: Any
) -> set[str]:
    """The names of the functions that the code calls."""
    asm = assembly(name, ins, outs, lanes, target, **attributes)
    return {m.split("@")[0] for m in re.findall(r"\b(?:callq?|jmp|bl)\s+\*?([A-Za-z_][\w@.]*)", asm)}


def run(
    name: str,
    inputs: Sequence[np.ndarray],
    outs: Sequence[str],
    lanes: int = 16,
    target: str = "host",
    ins: Sequence[str] | None = None,
    constants: Mapping[int, int | float] | None = None,
    **attributes: Any,
) -> list[np.ndarray]:
    """The handler's results over equally long arrays (padded to a multiple of the lanes)."""
    kinds = tuple(ins or [next(k for k, d in DTYPES.items() if d == a.dtype) for a in inputs])
    key = (name, kinds, tuple(outs), tuple(attributes.items()), lanes, target, tuple((constants or {}).items()))
    _, address = _compiled(key)
    count = len(inputs[0])
    padded = -(-count // max(1, lanes)) * max(1, lanes)
    arrays = [np.concatenate([a, np.ones(padded - count, a.dtype)]) for a in inputs]
    results = [np.zeros(padded, DTYPES[k]) for k in outs]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(arrays) + len(results)), ctypes.c_int64)(address)
    function(*[a.ctypes.data for a in [*arrays, *results]], padded)
    return [r[:count] for r in results]


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit; any NaN equals any NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    differ = got.view(unsigned) != want.view(unsigned)
    if got.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            differ &= ~(np.isnan(got) & np.isnan(want))
    if differ.any():
        at = int(np.flatnonzero(differ)[0])
        raise AssertionError(f"{differ.sum()} of {got.size} differ; at {at} got {got[at]!r}, want {want[at]!r}")
