"""The XLA handler without the C extension: the same call, read and run by Python.

In: XLA's call frame. Out: the launch, on the pool that `runtime.pool` has then. Python runs at every call, so programs pay
for the interpreter lock; build the C extension where that matters.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..runtime import pool

_HEAD, _PER_PARAMETER = 6, 3
_METADATA, _EXECUTE, _INTERNAL = 1, 3, 13
_pointer = ctypes.c_void_p


class _Values(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", _pointer),
        ("size", ctypes.c_int64),
        ("types", _pointer),
        ("values", ctypes.POINTER(_pointer)),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", _pointer),
        ("size", ctypes.c_int64),
        ("types", _pointer),
        ("names", ctypes.POINTER(_pointer)),
        ("values", ctypes.POINTER(_pointer)),
    )


class _Frame(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", _pointer),
        ("api", _pointer),
        ("context", _pointer),
        ("stage", ctypes.c_int),
        ("arguments", _Values),
        ("results", _Values),
        ("attributes", _Attributes),
    )


class _Buffer(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("extension", _pointer), ("dtype", ctypes.c_int), ("data", _pointer))


class _Span(ctypes.Structure):
    _fields_ = (("text", _pointer), ("length", ctypes.c_size_t))


class _Array(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int), ("size", ctypes.c_size_t), ("data", _pointer))


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", _pointer), ("metadata", _pointer))


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version_size", ctypes.c_size_t),
        ("extension", _pointer),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class _ErrorArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", _pointer),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    )


_HANDLER = ctypes.CFUNCTYPE(_pointer, _pointer)
_CREATE = ctypes.CFUNCTYPE(_pointer, ctypes.POINTER(_ErrorArgs))
_ERROR_CREATE = 48  # offset of the function in XLA's table: size, extension, version (24 bytes), internal


@cache
def _callback(function: Callable[[int], int | None]) -> Any:
    return _HANDLER(function)  # kept by the cache: it must live as long as the process


def _address(function: Callable[[int], int | None]) -> int:
    return ctypes.cast(_callback(function), _pointer).value or 0


def handler_address() -> int:
    """The address of the handler."""
    return _address(_handle)


def refusal_address() -> int:
    """The address of a handler that fails, for devices whose memory no compiled kernel can reach."""
    return _address(_refuse)


def _refuse(address: int) -> int | None:
    frame = _Frame.from_address(address)
    if _is_question(frame) or frame.stage != _EXECUTE:
        return None
    return _error(frame, f"omnikernel: this program runs on a GPU; {ADVICE}")


ADVICE = (
    "from JAX, Triton kernels run on the CPU: use jax.device_put(x, jax.devices('cpu')[0]), or call the operator on torch "
    "tensors or CuPy arrays, which share a GPU's memory by DLPack"
)


def _is_question(frame: _Frame) -> bool:
    """XLA asks for the version of the interface, and this answers."""
    if not frame.extension:
        return False
    extension = _Extension.from_address(frame.extension)
    if extension.type != _METADATA:
        return False
    metadata = _Metadata.from_address(extension.metadata)
    metadata.major, metadata.minor = 0, 1
    return True


def _handle(address: int) -> int | None:
    frame = _Frame.from_address(address)
    if _is_question(frame) or frame.stage != _EXECUTE:
        return None
    try:
        return _run(frame)
    except Exception as error:  # XLA turns it into its own error, in the thread that asks for the result
        return _error(frame, f"omnikernel: {type(error).__name__}: {error}")


def _run(frame: _Frame) -> int | None:
    from . import xla

    attributes = dict(_attribute(frame.attributes, i) for i in range(frame.attributes.size))
    plan = np.frombuffer(attributes["plan"], np.int64)
    key, grid, repeats = int(plan[0]), (int(plan[1]), int(plan[2]), int(plan[3])), int(plan[4])
    variant = xla.known(key) or xla.load(key, attributes["kernel"])
    buffers = [frame.arguments.values[i] for i in range(frame.arguments.size)]
    buffers += [frame.results.values[i] for i in range(frame.results.size)]
    places = plan[_HEAD:].reshape(-1, _PER_PARAMETER)
    slots = np.array(
        [
            _Buffer.from_address(buffers[b]).data or 0 if b >= 0 else bits & (1 << 64) - 1
            for b, bits, _ in places.tolist()
        ],
        np.uint64,
    )
    artefact = variant.artefact
    for repeat in range(repeats):
        moved = slots + (places[:, 2] * repeat).astype(np.uint64)
        failure = pool.pool().run(variant.address, moved.tobytes(), grid, artefact.arena_bytes, artefact.cost)
        if failure is not None:
            code, x, y, z = failure
            where = f"kernel {artefact.name!r}, program ({x}, {y}, {z})"
            return _error(frame, f"{where}: device_assert failed: {artefact.asserts[code - 1]}")
    return None


def _attribute(attributes: _Attributes, index: int) -> tuple[str, bytes]:
    name = _Span.from_address(attributes.names[index])
    array = _Array.from_address(attributes.values[index])
    text = ctypes.string_at(name.text, name.length).decode()
    return text, ctypes.string_at(array.data, array.size * (8 if text == "plan" else 1))


def _error(frame: _Frame, message: str) -> int | None:
    create = _CREATE(_pointer.from_address(frame.api + _ERROR_CREATE).value or 0)
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, message.encode(), _INTERNAL)
    found: int | None = create(ctypes.byref(args))
    return found
