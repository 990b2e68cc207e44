"""Arguments of a call, checked against the signature and packed into 64-bit slots.

In: a function's signature and the values of a call. Out: slots as entries.py describes them. Nothing runs before every
argument has been checked: number, dtype, rank, device, and that no read-only array is in a written position.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError
from ..runtime.arrays import ITEMSIZE, ArrayView, Where, view_at
from .source import Function, Parameter, Type

# Triton's dtype -> NumPy's name, which users read in errors.
_NAMES = {
    "i1": "bool",
    **{f"i{b}": f"int{b}" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)},
    **{f"fp{b}": f"float{b}" for b in (16, 32, 64)},
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
    "fp8e4b15": "float8_e4m3b11fnuz",
}


@dataclass(frozen=True, slots=True)
class Packed:
    """The slots of the parameters, and what keeps the memory alive."""

    slots: list[int]
    owners: list[Any]


def bind(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """One value for each parameter, in order.

    Raises:
        ArgumentTypeError: too few, too many, an unknown name, or a value given twice.
    """
    names = [parameter.name for parameter in function.parameters]
    if len(args) > len(names) or (not kwargs and len(args) != len(names)):
        raise ArgumentTypeError(
            f"{_kind(function)} {function.name!r}: expected {len(names)} arguments ({', '.join(names)}), got {len(args)}"
        )
    values = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentTypeError(
                f"{_kind(function)} {function.name!r}: has no parameter {name!r}; it has {', '.join(names)}"
            )
        if name in values:
            raise ArgumentTypeError(f"{_kind(function)} {function.name!r}: parameter {name!r} is given twice")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        raise ArgumentTypeError(f"{_kind(function)} {function.name!r}: no value for {', '.join(missing)}")
    return [values[name] for name in names]


def _kind(function: Function) -> str:
    return "kernel" if function.is_kernel else "function"


def pack(function: Function, values: Sequence[Any], look: Any = view_at) -> Packed:
    """Check the values and make their slots.

    Args:
        function: the signature.
        values: one for each parameter.
        look: how to read an array: (object, Where) to an `ArrayView`, or None where it is none.

    Raises:
        ArgumentTypeError: of another kind, dtype, rank or device than the signature has.
        ArgumentValueError: read-only where it is written, not contiguous where a pointer is expected, out of range.
    """
    slots: list[int] = []
    views: list[ArrayView | None] = []
    for parameter, value in zip(function.parameters, values, strict=True):
        where = Where(function.name, parameter.name)
        if parameter.type.form == "scalar":
            slots.append(scalar_bits(parameter.type, value, where))
            views.append(None)
            continue
        found = _array(parameter, value, look, where)
        views.append(found)
        slots.extend(_array_slots(parameter.type, found))
    if function.sizes:
        shapes = {
            p.name: v.shape
            for p, v in zip(function.parameters, views, strict=True)
            if v is not None and v.shape is not None
        }
        check_sizes(function, shapes)
    if any(parameter.type.restrict for parameter in function.parameters):
        _refuse_overlap(function, views)
    return Packed(slots, [view.owner for view in views if view is not None])


def _array(parameter: Parameter, value: Any, look: Any, where: Where) -> ArrayView | None:
    type_ = parameter.type
    if value is None and type_.form == "pointer":
        return None
    found: ArrayView | None = look(value, where)
    expected = expected_array(type_)
    if found is None:
        raise where.type_error(expected, f"{value!r} of type {type(value).__name__}", f"the parameter is {type_}")
    if type_.dtype and found.dtype != type_.dtype:
        got = f"{found.library} array of {_NAMES.get(found.dtype, found.dtype)}"
        raise where.type_error(expected, got, f"convert it, or change the parameter's type {type_}")
    if found.shape is None or found.strides is None:
        if type_.form == "pointer":
            return found
        raise where.type_error(expected, f"an object without a shape ({found.library})", "pass the array itself")
    if type_.form == "view" and len(found.shape) != type_.rank:
        got = f"one of {dimensions(len(found.shape))}, shape {tuple(found.shape)}"
        raise where.type_error(expected, got, f"reshape it, or change the parameter's type {type_}")
    if type_.form == "pointer" and not _is_contiguous(found):
        advice = "pass a contiguous copy, or take an ok::View, which knows strides"
        raise where.value_error("a contiguous array for a pointer", f"strides {_elements(found)}", advice)
    if type_.lanes > 1:
        _check_vectors(type_, found, where)
    if not type_.const and not found.writeable:
        advice = "pass a writeable array, or make the parameter const if it is only read"
        if found.library == "jax":
            advice = "JAX arrays are immutable; pass a NumPy array for the result, or make the parameter const"
        raise where.value_error("a writeable array", f"a read-only {found.library} array", advice)
    return found


def _check_vectors(type_: Type, array: ArrayView, where: Where) -> None:
    """Vectors of 2 and 4 components are aligned to their size, to 16 bytes at most; no element may be left over."""
    size = ITEMSIZE[type_.dtype]
    aligned = size if type_.lanes == 3 else min(16, size * type_.lanes)
    if array.address % aligned:
        advice = "pass a copy, which is aligned, or take a pointer to scalars"
        raise where.value_error(
            f"an array aligned to {aligned} bytes for {type_}", f"address {array.address:#x}", advice
        )
    if prod(array.shape or ()) % type_.lanes:
        advice = "pass an array padded to that, or take a pointer to scalars"
        raise where.value_error(f"a multiple of {type_.lanes} elements for {type_}", f"shape {array.shape}", advice)


def check_sizes(function: Function, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Hold the arrays' shapes against the sizes that were declared for them.

    Raises:
        ArgumentValueError: one has another size.
    """
    known: dict[str, tuple[int, str]] = {}
    for name, sizes in function.sizes:
        for axis, (wanted, got) in enumerate(zip(sizes, shapes[name], strict=True)):
            expected, because = (int(wanted), "") if wanted.isdigit() else known.setdefault(wanted, (got, name))
            if got != expected:
                size = f"size {expected}" if not because else f"size {wanted} = {expected}, as {because!r} has,"
                raise Where(function.name, name).value_error(
                    f"{size} along axis {axis}", f"shape {tuple(shapes[name])}", "pass arrays whose sizes agree"
                )


def names_of(dtype: str) -> str:
    """NumPy's name of a dtype of Triton's."""
    return _NAMES[dtype]


def expected_array(type_: Type) -> str:
    """The array that a parameter takes, in words."""
    dtype = _NAMES[type_.dtype] if type_.dtype else "any dtype"
    return f"an array of {dtype}" + (f" with {dimensions(type_.rank)}" if type_.form == "view" else "")


def dimensions(rank: int) -> str:
    """A number of dimensions in words."""
    return f"{rank} dimension{'' if rank == 1 else 's'}"


def _elements(array: ArrayView) -> tuple[int, ...]:
    size = ITEMSIZE[array.dtype]
    return tuple(stride // size for stride in array.strides or ())


def _is_contiguous(array: ArrayView) -> bool:
    step = ITEMSIZE[array.dtype]
    for extent, stride in zip(reversed(array.shape or ()), reversed(array.strides or ()), strict=True):
        if extent > 1 and stride != step:
            return False
        step *= max(1, extent)
    return True


def _array_slots(type_: Type, array: ArrayView | None) -> list[int]:
    if array is None:
        return [0]
    if type_.form == "pointer":
        return [array.address]
    return [array.address, *(array.shape or ()), *_elements(array)]


def scalar_bits(type_: Type, value: Any, where: Where) -> int:
    """A scalar as the low bytes of a slot.

    Raises:
        ArgumentTypeError: not a number, or a float where an integer is expected.
        ArgumentValueError: an integer that the type does not hold.
    """
    dtype = type_.dtype
    if isinstance(value, np.generic) or (hasattr(value, "item") and getattr(value, "ndim", 1) == 0):
        value = value.item()
    if dtype.startswith(("i", "u")):
        if not isinstance(value, int):
            raise where.type_error(
                f"an integer for {type_}", f"{value!r} of type {type(value).__name__}", "convert it with int()"
            )
        bits = 8 * ITEMSIZE[dtype]
        low, high = (
            (0, 2) if dtype == "i1" else (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
        )
        if not low <= value < high:
            raise where.value_error(f"an integer from {low} to {high - 1} for {type_}", f"{value}", "use a wider type")
        return int(value) & (1 << bits) - 1
    if not isinstance(value, (int, float)):
        raise where.type_error(
            f"a number for {type_}", f"{value!r} of type {type(value).__name__}", "convert it with float()"
        )
    return float_bits(dtype, float(value))


def float_bits(dtype: str, value: float) -> int:
    """The bits of a float of this dtype, rounded to nearest even."""
    if dtype == "fp64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    with np.errstate(over="ignore"):
        if dtype == "fp32":
            return int(np.float32(value).view(np.uint32))
        if dtype == "fp16":
            return int(np.float16(value).view(np.uint16))
        import ml_dtypes

        return int(np.asarray(value).astype(getattr(ml_dtypes, _NAMES[dtype])).view(f"u{ITEMSIZE[dtype]}"))


def _refuse_overlap(function: Function, views: Sequence[ArrayView | None]) -> None:
    """A restrict view may share no memory with an array that is written, nor, where it is written, with any."""
    seen = [(p, v) for p, v in zip(function.parameters, views, strict=True) if v is not None and v.extent is not None]
    for index, (first, one) in enumerate(seen):
        for second, two in seen[index + 1 :]:
            if not (first.type.restrict or second.type.restrict) or (first.type.const and second.type.const):
                continue
            assert one.extent is not None and two.extent is not None
            if max(one.extent[0], two.extent[0]) < min(one.extent[1], two.extent[1]):
                raise ArgumentValueError(
                    f"{_kind(function)} {function.name!r}: {first.name!r} and {second.name!r} share memory, but one is "
                    "ok::Restrict; pass a copy, or drop ok::Restrict"
                )


def float_of(dtype: str, bits: int) -> float:
    """The float of these bits."""
    if dtype == "fp64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if dtype == "fp32":
        return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
    import ml_dtypes

    kind = np.float16 if dtype == "fp16" else getattr(ml_dtypes, _NAMES[dtype])
    size = ITEMSIZE[dtype]
    return float(np.array(bits & (1 << 8 * size) - 1, f"u{size}").view(kind))
