"""LLVM values as text: types, constants, and the module that collects functions and declarations.

A value is an `LValue`: its text and its type. `lanes == 0` is a scalar; any other number a vector of that many lanes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

SCALAR_BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}


_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


class LType:
    """An LLVM type: a scalar name and a number of lanes (0 for the scalar itself).

    There is one object of each, so that types are compared by identity, and what follows from them is found once.

    Attributes:
        text: the type as LLVM writes it.
        bits: of one lane.
        suffix: the mangling of the type in an intrinsic's name, e.g. `v8f32`.
    """

    __slots__ = ("bits", "is_float", "lanes", "scalar", "suffix", "text")

    scalar: str
    lanes: int
    text: str
    bits: int
    is_float: bool
    suffix: str

    def __new__(cls, scalar: str, lanes: int = 0) -> LType:
        found = _TYPES.get((scalar, lanes))
        if found is None:
            made = object.__new__(cls)
            made.scalar, made.lanes, made.bits = scalar, lanes, SCALAR_BITS.get(scalar) or int(scalar[1:])
            made.text = f"<{lanes} x {scalar}>" if lanes else scalar
            made.is_float = scalar in ("half", "bfloat", "float", "double")
            short = _SHORT.get(scalar, scalar)
            made.suffix = f"v{lanes}{short}" if lanes else short
            found = _TYPES.setdefault((scalar, lanes), made)  # another thread may have been first
        return found

    def of(self, scalar: str) -> LType:
        """The type with as many lanes of another scalar."""
        return _TYPES.get((scalar, self.lanes)) or LType(scalar, self.lanes)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"LType({self.text})"


_TYPES: dict[tuple[str, int], LType] = {}


@dataclass(slots=True, unsafe_hash=True)
class LValue:
    """An LLVM value: how it is written, and its type. Never changed; not frozen, since that doubles the time to make one."""

    text: str
    type: LType

    @property
    def lanes(self) -> int:
        return self.type.lanes

    def __str__(self) -> str:
        """Type and value, as an operand list wants them."""
        return f"{self.type.text} {self.text}"


I1, I8, I16, I32, I64 = (LType(s) for s in ("i1", "i8", "i16", "i32", "i64"))
FLOAT, DOUBLE, PTR = LType("float"), LType("double"), LType("ptr")


def float_text(scalar: str, value: float) -> str:
    """A float constant as LLVM writes it: the bits of the double of the same value (exact for float and double)."""
    if scalar == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def float_bits_text(scalar: str, bits: int) -> str:
    """A float constant given by its bit pattern; NaN payloads are kept as far as LLVM's text allows."""
    if scalar == "double":
        return f"0x{bits:016X}"
    if scalar == "float":
        (value,) = struct.unpack("<f", struct.pack("<I", bits))
        if math.isnan(value):  # struct makes a NaN quiet on some machines; build the double's bits by hand
            return f"0x{(bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29:016X}"
        return float_text("double", value)
    raise ValueError(f"no text for a constant of {scalar}")


# What follows an instruction: a branch that is seldom taken, and a store past the caches; and what it refers to.
RARELY = ", !prof !0"
NON_TEMPORAL = ", !nontemporal !1"
_METADATA = ('!0 = !{!"branch_weights", i32 1, i32 100}', "!1 = !{i32 1}")


@dataclass
class Module:
    """The text of one LLVM module: declarations on demand, globals, and function bodies.

    `features` are LLVM's names of the features that the code may use (`avx2`, `f16c`): handlers choose by them.
    `vector_bits` is the widest register that instructions named outright (x86 intrinsics) may use.
    """

    triple: str = ""
    features: frozenset[str] = frozenset()
    vector_bits: int = 512
    declarations: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def declare(self, name: str, result: LType | str, params: Sequence[LType | str], attributes: str = "") -> None:
        """Declare an external function or intrinsic once."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(map(str, params))}) {attributes}".rstrip()

    def constant(self, name: str, text: str) -> str:
        """Add a private constant such as `[4 x i32] [i32 1, ...]`; returns its reference."""
        self.globals.append(f"@{name} = private unnamed_addr constant {text}, align 64")
        return f"@{name}"

    @property
    def text(self) -> str:
        head = [f'target triple = "{self.triple}"'] if self.triple else []
        return "\n".join([*head, *self.globals, *self.functions, *self.declarations.values(), *_METADATA]) + "\n"
