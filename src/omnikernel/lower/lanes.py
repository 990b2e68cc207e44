"""Values of one IR type over the lanes of a loop nest, or of a single scalar.

Narrow floats (f16, bf16, fp8) have two forms: `raw`, their bits as integers, and `wide`, the same value as f32. Each is
made from the other on demand and kept, so that a chain of bf16 operations never packs and unpacks between two of them.
The wide form of a narrow float is always a value that the narrow type can hold: every operation rounds its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.tile import Op
from ..ir.types import NARROW_FLOATS, Pointer, Scalar
from ..llvm.emit import Builder, LType, LValue

# The LLVM scalar that holds a value of the kind in a register (raw form).
REGISTER = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "index": "i64",
    "f64": "double",
    "f32": "float",
    "f16": "i16",
    "bf16": "i16",
    **{kind: "i8" for kind in NARROW_FLOATS if kind.startswith("f8")},
}


def register_type(type_: Scalar | Pointer, lanes: int = 0) -> LType:
    """The LLVM type of a value in raw form."""
    return LType("ptr" if isinstance(type_, Pointer) else REGISTER[type_.kind], lanes)


def is_narrow(type_: Scalar | Pointer) -> bool:
    """f16, bf16 and fp8: computed in f32 and rounded after each operation."""
    return isinstance(type_, Scalar) and type_.kind in NARROW_FLOATS


class Lanes:
    """One operand or result of an elementwise handler."""

    __slots__ = ("_derived", "_raw", "_wide", "lanes", "type")

    def __init__(self, type_: Scalar | Pointer, raw: LValue | None = None, wide: LValue | None = None) -> None:
        some = raw or wide
        assert some is not None
        self.type = type_
        self.lanes = some.type.lanes
        self._raw = raw
        self._wide = wide
        # Derived forms by the block they were made in: elsewhere they might not dominate their use.
        self._derived: dict[str, LValue] = {}

    @property
    def has_wide(self) -> bool:
        """Whether the f32 form of a narrow float is there without a conversion."""
        return self._wide is not None

    def raw(self, b: Builder) -> LValue:
        """The value in its own type; for a narrow float, its bits."""
        if self._raw is not None:
            return self._raw
        if b.block not in self._derived:
            from .convert import narrow_exact

            assert self._wide is not None and isinstance(self.type, Scalar)
            made = narrow_exact(b, self._wide, self.type.kind)
            self._derived[b.block] = made
        return self._derived[b.block]

    def wide(self, b: Builder) -> LValue:
        """A narrow float as f32; any other value as it is."""
        if not is_narrow(self.type):
            return self.raw(b)
        if self._wide is not None:
            return self._wide
        if b.block not in self._derived:
            from .convert import widen

            assert self._raw is not None and isinstance(self.type, Scalar)
            made = widen(b, self._raw, self.type.kind)
            self._derived[b.block] = made
        return self._derived[b.block]

    def with_wide(self, b: Builder) -> Lanes:
        """The same value with its f32 form made here, for uses further in."""
        if not is_narrow(self.type) or self._wide is not None:
            return self
        return Lanes(self.type, self._raw, self.wide(b))

    def spread(self, b: Builder, lanes: int) -> Lanes:
        """A scalar in every lane, in the forms there are; lanes stay as they are."""
        if self.lanes == lanes:
            return self
        raw = b.splat(self._raw, lanes) if self._raw is not None else None
        wide = b.splat(self._wide, lanes) if self._wide is not None else None
        return Lanes(self.type, raw, wide)

    def each(self, change: Callable[[LValue], LValue]) -> Lanes:
        """The same change to every form there is: one that moves lanes."""
        raw, wide = self._raw, self._wide
        return Lanes(self.type, change(raw) if raw is not None else None, change(wide) if wide is not None else None)


# Bytes of the last cache, where the system does not tell, and at most: a larger one has many cores, and what a launch
# writes stays in it no longer (on Emerald Rapids, with 260 MB, 64 MB of output are faster past the caches).
LAST_CACHE = 32 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """What the generated code may use; everything here is in the cache key.

    `features` are LLVM's names of the host's features; `last_cache` is what a launch may count on of the last cache, in bytes.
    """

    triple: str
    cpu: str
    features: frozenset[str]
    last_cache: int = LAST_CACHE

    @property
    def vector_bits(self) -> int:
        """Width of a full vector register."""
        if "avx512f" in self.features:
            return 512
        return 256 if "avx2" in self.features else 128

    @property
    def prefetches(self) -> bool:
        """Whether loops should ask for what they read next: on Intel's servers (measured on Emerald Rapids)."""
        return "avx512f" in self.features and not self.cpu.startswith("znver")


Handler = Callable[[Builder, Op, Sequence[Lanes]], Sequence[Lanes]]
ELEMENTWISE: dict[str, Handler] = {}


def elementwise(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of elementwise ops. It gets the op and its operands' lanes, and returns its results'."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert name not in ELEMENTWISE, name
            ELEMENTWISE[name] = handler
        return handler

    return register
