"""Types and constants: the text of a type or of a literal in, `ir.types.Type` or bit patterns out."""

from __future__ import annotations

import re
from functools import cache

from ..ir.floats import encode
from ..ir.types import FLOAT_BITS, INTEGER_BITS, Descriptor, Pointer, Scalar, Tensor, Type, element_of, shape_of

_SIGNED = re.compile(r"[su]i(\d+)")
_SIGN = re.compile(r"x([su])i\d")
_DIMENSIONS = re.compile(r"x?((?:\d+x)*)(.*)", re.DOTALL)
_LITERAL = re.compile(r"true|false|0x[0-9A-Fa-f]+|-?\d+(?:\.\d*(?:[eE][+-]?\d+)?)?")


@cache
def parse_type(text: str) -> Type | None:
    """The type that a token spells, or None where it spells no type that tile IR has.

    `<...>` alone, as the custom forms print where the dialect prefix is implied, is a pointer, or a descriptor where
    it begins with an extent or its elements state a sign (`si32`). Only a descriptor keeps the sign.
    """
    if text in INTEGER_BITS or text in FLOAT_BITS:
        return Scalar(text)
    if text[-1:] != ">":
        signed = _SIGNED.fullmatch(text)
        return parse_type(f"i{signed[1]}") if signed else None
    head, _, inner = text[:-1].partition("<")
    if head == "tensor":
        return _tensor(inner)
    if head == "!tt.ptr":
        pointee, _, space = inner.rpartition(", ") if re.search(r", \d+$", inner) else (inner, "", "1")
        target = parse_type(pointee)
        return Pointer(target, int(space)) if target else None
    sign = _SIGN.search(inner)
    if head == "!tt.tensordesc" or (not head and (sign or inner[:1].isdigit())):
        block = parse_type(inner) if inner.startswith("tensor<") else _tensor(inner)
        return Descriptor(block, sign is not None and sign[1] == "u") if isinstance(block, Tensor) else None
    if not head:
        return parse_type(f"!tt.ptr<{inner}>")
    return None


def _tensor(inner: str) -> Tensor | None:
    match = _DIMENSIONS.fullmatch(inner)
    assert match is not None
    element = parse_type(match[2])
    if not isinstance(element, Scalar | Pointer):
        return None
    return Tensor(tuple(int(extent) for extent in match[1].split("x")[:-1]), element)


def scalar_bits(literal: str, kind: Scalar) -> int:
    """The bit pattern of `true`, `-3`, `1.5e+00` or `0x7FC00000` in a scalar type. Raises ValueError for other text."""
    if literal in ("true", "false"):
        return int(literal == "true")
    if literal.startswith("0x"):
        bits = int(literal, 16)
    elif kind.is_float:
        return encode(float(literal), kind.kind)
    else:
        bits = int(literal)
    if not -(1 << (kind.bits - 1)) <= bits < 1 << kind.bits:
        raise ValueError(f"{literal} does not fit {kind}")
    return bits & ((1 << kind.bits) - 1)


def dense_elements(body: str, type_: Type) -> tuple[int, ...]:
    """The bit patterns of `dense<body>`: one for a splat, else one an element, row-major.

    Raises:
        ValueError: if the body does not hold as many elements as the type, or no literals of it.
    """
    kind = element_of(type_)
    if not isinstance(kind, Scalar):
        raise ValueError(f"a constant of type {type_}")
    size = 1
    for extent in shape_of(type_):
        size *= extent
    if body.startswith('"'):
        return _blob(bytes.fromhex(body[3:-1]), kind, size)
    literals = _LITERAL.findall(body)
    left = _LITERAL.sub("", body).strip("[], \n\t")
    if left or not literals:
        raise ValueError(f"dense<{body}> holds {left or 'nothing'}")
    if body.lstrip().startswith("[") and len(literals) != size:
        raise ValueError(f"dense<...> has {len(literals)} elements for {type_}")
    return tuple(scalar_bits(literal, kind) for literal in literals)


def _blob(raw: bytes, kind: Scalar, size: int) -> tuple[int, ...]:
    """The elements of a hexadecimal blob: little-endian; i1 a byte an element, or a bit in older releases."""
    width = kind.bytes
    if kind.bits == 1 and len(raw) == (size + 7) // 8 and len(raw) != size:
        return tuple(raw[i // 8] >> i % 8 & 1 for i in range(size))
    if len(raw) in (width * size, width):
        return tuple(
            int.from_bytes(raw[i : i + width], "little") & ((1 << kind.bits) - 1) for i in range(0, len(raw), width)
        )
    raise ValueError(f"a blob of {len(raw)} bytes for {size} elements of {kind}")
