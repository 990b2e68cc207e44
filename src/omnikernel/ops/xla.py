"""Kernels inside `jax.jit`: one XLA handler runs them all; no Python runs when a program does.

In: a compiled kernel, its grid and the place of every parameter (`Call`). Out: JAX values. The call is an `ffi_call` whose
attributes say which kernel (by the hash of its code), with what grid and scalars; the kernel itself goes along, so that an
exported program runs in another process, and is compiled again from its TTIR where the processor differs.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap

from ..errors import OmnikernelError
from ..runtime import cache as stored
from ..runtime import pool
from ..runtime.launch import Executable, Variant, executable
from . import xla_python

TARGET = "omnikernel"
_KERNELS: dict[int, Variant] = {}  # linked kernels that the handler knows, by key; alive as long as the process
_LOCK = threading.Lock()
_LOADER: Any = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True, slots=True)
class Place:
    """A parameter of a kernel: the number of its operand, or of its result after those, or -1 and the bits of a scalar.

    `batched`: the operand has the axis of the repeats in front.
    """

    buffer: int
    bits: int = 0
    batched: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One launch as XLA sees it.

    `results` are the shapes and dtypes of the results, without the axis of the repeats; `aliases` are pairs (operand,
    result) that share memory. `repeats` is None, or the length of the axis that `vmap` added.
    """

    key: int
    kernel: bytes
    grid: tuple[int, int, int]
    places: tuple[Place, ...]
    results: tuple[tuple[tuple[int, ...], Any], ...]
    aliases: tuple[tuple[int, int], ...]
    repeats: int | None = None

    def __post_init__(self) -> None:
        programs = (1 if self.repeats is None else self.repeats) * self.grid[0] * self.grid[1] * self.grid[2]
        if programs >= 1 << 62:
            raise OmnikernelError(f"a launch of {programs} programs is too large")


@cache
def ready() -> None:
    """Register the handler with XLA, once.

    Raises:
        OmnikernelError: the C extension is missing.
    """
    native = pool.native()
    if native is None or not hasattr(native, "xla_handler"):
        address, add = xla_python.handler_address(), None
    else:
        address, add = native.xla_handler(), native
    pool.pool()  # sets the number of threads
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
    jax.ffi.register_ffi_target(TARGET, make(address, _CAPSULE, None), platform="cpu")
    for platform in ("CUDA", "ROCM"):  # by its own names
        refusal = make(xla_python.refusal_address(), _CAPSULE, None)
        jax.ffi.register_ffi_target(TARGET, refusal, platform=platform)
    if add is not None:
        add.xla_set_loader(ctypes.cast(_load, ctypes.c_void_p).value)


_CAPSULE = b"xla._CUSTOM_CALL_TARGET"  # XLA looks at this name; it must live as long as the capsule


def register(kernel: Executable) -> tuple[int, bytes]:
    """Make a kernel known to the handler.

    Returns:
        Its key, and what goes along with a call: its cache key and the packed artefact; of a kernel that was built elsewhere
        (C++, prebuilt) only its `identity`, as no program carries it.
    """
    ready()
    artefact = kernel.artefact
    identity: str | None = getattr(kernel, "identity", None)
    if identity is not None:
        key = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "little") >> 1
        _add(key, kernel)
        return key, identity.encode()
    key = int.from_bytes(hashlib.sha256(artefact.object).digest()[:8], "little") >> 1  # attributes are signed
    _add(key, kernel)
    return key, _name(artefact).encode() + b"\n" + stored.pack(
        replace(artefact, texts={"ttir": artefact.texts["ttir"]})
    )


def _name(artefact: Any) -> str:
    from ..llvm import jit

    return stored.key(artefact.texts["ttir"], artefact.options, jit.host_target())


def _add(key: int, kernel: Executable) -> Variant:
    with _LOCK:
        found = _KERNELS.get(key)
        if found is None:
            found = kernel.variant(True)  # XLA's buffers are disjoint, or one and the same
            native = pool.native()
            if native is not None:
                a = found.artefact
                native.xla_add_kernel(key, found.address, a.arena_bytes, a.cost, (a.name, *a.asserts))
            _KERNELS[key] = found
        return found


@_LOADER  # type: ignore[untyped-decorator]
def _load(key: int, data: int, size: int) -> int:
    """Called by the handler for a program that another process made."""
    load(key, ctypes.string_at(data, size))
    return 0


def load(key: int, data: bytes) -> Variant:
    """Link a kernel that came along with a call; compile it again if it was for another processor or version."""
    from .. import pipeline

    name, newline, packed = data.partition(b"\n")
    if not newline:
        raise OmnikernelError(
            f"this program was exported with the kernel {data.decode()}, which is prebuilt or C++ and not carried along; call the "
            "operator that launches it once in this process"
        )
    artefact = stored.unpack(packed)
    if _name(artefact).encode() != name:
        artefact = pipeline.compile_text(artefact.texts["ttir"], artefact.options)
        artefact = replace(artefact, texts={"ttir": stored.unpack(packed).texts["ttir"]})
        return _add(key, Executable(artefact))
    return _add(key, executable(packed))


def known(key: int) -> Variant | None:
    """The linked kernel of a key."""
    return _KERNELS.get(key)


# ---- calls ----


def bind(call: Call, operands: Sequence[Any]) -> list[Any]:
    """Run a launch on JAX values; under `vmap` the grid is repeated, each time on the next slice."""
    run = custom_vmap(lambda *values: _ffi(call, values))

    @run.def_vmap
    def rule(size: int, batched: Sequence[bool], *values: Any) -> tuple[list[Any], list[bool]]:
        inner, moved = _batched(call, size, batched, values)
        found = bind(inner, moved)
        if call.repeats is not None:
            found = [one.reshape(size, call.repeats, *one.shape[1:]) for one in found]
        return found, [True] * len(found)

    return list(run(*matched(operands)))


def _batched(call: Call, size: int, batched: Sequence[bool], values: Sequence[Any]) -> tuple[Call, list[Any]]:
    """The call with one more axis: a step a slice for what has the axis, none for what has not."""
    jnp = jax.numpy
    aliased = {operand for operand, _ in call.aliases}
    had = {place.buffer for place in call.places if place.batched} | (aliased if call.repeats is not None else set())
    moved, have = [], set()
    for index, (value, new) in enumerate(zip(values, batched, strict=True)):
        old = index in had
        if call.repeats is not None and (new or old or index in aliased):
            # One step per repeat says either axis only where the value has both.
            whole = value if new else jnp.broadcast_to(value, (size, *value.shape))
            if not old:
                whole = jnp.broadcast_to(whole[:, None], (size, call.repeats, *whole.shape[1:]))
            moved.append(whole.reshape(size * call.repeats, *whole.shape[2:]))
            have.add(index)
        elif new or index in aliased:
            moved.append(value if new else jnp.broadcast_to(value, (size, *value.shape)))
            have.add(index)
        else:
            moved.append(value)
    results = range(len(values), len(values) + len(call.results))
    places = tuple(replace(p, batched=p.buffer in have or p.buffer in results) for p in call.places)
    return replace(call, places=places, repeats=size * (call.repeats or 1) if call.repeats is not None else size), moved


def _ffi(call: Call, operands: Sequence[Any]) -> list[Any]:
    front = () if call.repeats is None else (call.repeats,)
    shapes = [(*operand.shape,) for operand in operands] + [(*front, *shape) for shape, _ in call.results]
    dtypes = [operand.dtype for operand in operands] + [dtype for _, dtype in call.results]
    plan = [call.key, *call.grid, 1 if call.repeats is None else call.repeats, len(call.places)]
    for place in call.places:
        step = 0
        if place.batched and place.buffer >= 0:
            step = int(np.prod(shapes[place.buffer][1:], dtype=np.int64)) * np.dtype(dtypes[place.buffer]).itemsize
        bits = place.bits - (1 << 64) if place.bits >> 63 else place.bits
        plan.extend((place.buffer, bits, step))
    outs = [_struct((*front, *shape), dtype, operands) for shape, dtype in call.results]
    run = jax.ffi.ffi_call(TARGET, outs, input_output_aliases=dict(call.aliases))
    found = run(*operands, plan=np.array(plan, np.int64), kernel=np.frombuffer(call.kernel, np.uint8))
    return list(found)


def matched(values: Sequence[Any]) -> list[Any]:
    """Values that vary over the same mesh axes, inside `shard_map`; what is the same everywhere is marked as varying.

    Its derivative is then summed over the axes, by JAX.
    """
    axes = [_varying(value) for value in values]
    union = frozenset().union(*axes)
    if not union:
        return list(values)
    lax: Any = jax.lax
    found = []
    for value, has in zip(values, axes, strict=True):
        missing = tuple(sorted(union - has, key=str))
        if not missing:
            found.append(value)
        elif hasattr(lax, "pcast"):
            found.append(lax.pcast(value, missing, to="varying"))
        else:
            found.append(lax.pvary(value, missing))
    return found


def _varying(value: Any) -> frozenset[Any]:
    aval: Any = jax.typeof(value)
    manual = getattr(aval, "mat", None)
    return frozenset((manual.varying if manual is not None else getattr(aval, "vma", None)) or ())


def varies(value: Any) -> bool:
    """Whether a value differs between devices, as inside `shard_map`."""
    return bool(_varying(value))


def _struct(shape: tuple[int, ...], dtype: Any, operands: Sequence[Any]) -> Any:
    """The shape of a result, varying over the mesh axes over which the operands vary."""
    make: Any = jax.ShapeDtypeStruct
    varying = _varying(operands[0]) if operands else None
    if not varying:
        return make(shape, dtype)
    aval: Any = jax.typeof(operands[0])
    if hasattr(aval, "mat"):
        spec: Any = jax.sharding.PartitionSpec
        place = jax.sharding.NamedSharding(aval.sharding.mesh, spec())
        return make(shape, dtype, sharding=place, manual_axis_type=aval.mat)
    return make(shape, dtype, vma=varying)
