"""Runs a program by the reference and by compiled code, and says where they differ."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from compiled_functions import functions_as_compiled
from program_drawer import Program
from program_writer import DTYPES
from random_programs import is_disjoint

from omnikernel import reference
from omnikernel.ir.tile import Kernel
from omnikernel.ir.types import Pointer, Scalar
from omnikernel.lower.lanes import Target
from omnikernel.pipeline import Options


def options_of(seed: int) -> Options:
    """The options that the program of a seed is compiled with: each of the four variants in turn."""
    return Options(fp_fusion=seed // 2 % 2 == 0, disjoint=is_disjoint(seed))


def slots_of(arguments: Sequence[Any]) -> list[Any]:
    """What a launcher passes: addresses and scalars."""
    return [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]


def run_reference(kernel: Kernel, program: Program, target: Target | None = None) -> list[Any]:
    """The arguments after the reference ran the kernel on a copy of them; `target`: what it is compared with is for."""
    arguments = program.copy_arguments()
    with functions_as_compiled(target):
        reference.run(kernel, slots_of(arguments), program.grid)
    return arguments


def slot_bits(value: Any, type_: Pointer | Scalar) -> int:
    """An argument as the 8 bytes that compiled code reads."""
    if isinstance(value, np.ndarray):
        return int(value.ctypes.data)
    if isinstance(type_, Pointer) or not type_.is_float:
        return int(value) & (2**64 - 1)
    if type_.kind == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    return int(np.array(value, np.float64).astype(DTYPES[type_.kind]).view(f"u{type_.bytes}"))


def run_compiled(artefact: Any, program: Program) -> list[Any]:
    """The arguments after the compiled kernel ran all programs, in order, in this thread, on a copy of them."""
    from omnikernel.llvm.jit import load_object

    loaded = load_object(artefact.object, artefact.name)
    arguments = program.copy_arguments()
    pairs = zip(arguments, artefact.parameters, strict=True)
    slots = (ctypes.c_uint64 * max(1, len(arguments)))(*(slot_bits(a, p.type) for a, p in pairs))
    grid = (ctypes.c_int32 * 3)(*program.grid)
    room = ctypes.create_string_buffer(artefact.arena_bytes + 64)
    arena = (ctypes.addressof(room) + 63) // 64 * 64
    fault = (ctypes.c_int32 * 4)()
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    count = int(np.prod(program.grid))
    code = signature(loaded.address)(
        ctypes.addressof(slots), ctypes.addressof(grid), 0, count, arena, ctypes.addressof(fault)
    )
    assert code == 0, f"assert {code} failed in program {fault[:3]}"
    return arguments


def differences(want: Sequence[Any], got: Sequence[Any]) -> list[str]:
    """A line for each array that differs in any bit (NaNs are all equal)."""
    lines = []
    for at, (a, b) in enumerate(zip(want, got, strict=True)):
        if not isinstance(a, np.ndarray):
            continue
        bits = np.dtype(f"u{a.dtype.itemsize}")
        unlike = a.view(bits) != b.view(bits)
        if a.dtype.kind not in "iu":
            unlike &= ~(np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))
        places = np.flatnonzero(unlike)
        if places.size:
            first = int(places[0])
            lines.append(
                f"%arg{at} ({a.dtype}, {a.size}): {places.size} differ, first [{first}]: "
                f"reference {a[first]!r} (0x{a.view(bits)[first]:x}), compiled {b[first]!r} (0x{b.view(bits)[first]:x})"
            )
    return lines
