"""A compiled kernel as it is stored, and what a launcher must know of it.

In: nothing of the compiler. A process that only runs kernels made elsewhere imports this, and neither LLVM nor Triton.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .ir.types import Pointer, Scalar


@dataclass(frozen=True, slots=True)
class Parameter:
    """One runtime parameter of a compiled kernel, in the order of its argument slots.

    `written` and `read` say what the kernel may do through a pointer (also by pointers derived from it).
    """

    name: str
    type: Pointer | Scalar
    read: bool = False
    written: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the generated code, beyond the TTIR itself. Part of every cache key."""

    fp_fusion: bool = True
    disjoint: bool = False  # no array that the kernel writes overlaps another argument
    checks: bool = False
    debug: bool = False  # device_assert is live


@dataclass(frozen=True, slots=True)
class Artefact:
    """A compiled kernel as it is stored: relocatable object code and what a launcher must know.

    The symbol `name` has the C signature

        int32_t name(const uint64_t *args, const int32_t grid[3], int64_t first, int64_t last, void *arena, void *fault)

    It runs the programs first <= p < last, where p = x + grid[0] * (y + grid[1] * z), or another order of the axes where
    no program can see another one (passes/order.py). `args` holds one 8-byte slot a parameter: an address, an integer
    (sign- or zero-extended to 64 bits), or the bits of a float in the low bytes (f32 as f32, f64 as f64, f16 and bf16 as
    their 16 bits). `arena` is `arena_bytes` of scratch memory, 64-byte aligned, for this thread alone. The result is 0,
    or the number (from 1) of the entry of `asserts` that failed, with the program's x, y, z in int32 fault[0..2].
    """

    name: str
    object: bytes
    parameters: tuple[Parameter, ...]
    arena_bytes: int
    asserts: tuple[str, ...] = ()
    cost: float = 0.0  # estimated nanoseconds of one program; 0 where unknown
    in_order: bool = True  # a program may wait for a lower one, so they are handed out in increasing order
    texts: dict[str, str] = field(default_factory=dict)  # stage name -> text, for dumps
    options: Options = Options(disjoint=True)  # what it was compiled with; a launcher derives the other variant from it

    @property
    def manifest(self) -> dict[str, Any]:
        """What is stored beside the object code, as JSON-able values; of the texts only the TTIR, from which others come."""
        return {
            "name": self.name,
            "parameters": [[p.name, str(p.type), p.read, p.written] for p in self.parameters],
            "arena_bytes": self.arena_bytes,
            "asserts": list(self.asserts),
            "cost": self.cost,
            "in_order": self.in_order,
            "texts": {stage: text for stage, text in self.texts.items() if stage == "ttir"},
            "options": asdict(self.options),
        }
