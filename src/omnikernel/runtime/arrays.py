"""Array adapters: from an array of any library to its address, dtype, strides and extent.

In: an argument of a launch. Out: an `ArrayView`, or None where the argument is no array. An array that cannot be passed
is refused with an error that names the kernel and the parameter. To add a library, write one function and one line of
`ADAPTERS`, keyed by the root module of the array's type. No library but NumPy is imported: an array of a library can only
exist once its user has imported it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import prod
from typing import Any, NoReturn

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError

# NumPy's name of a dtype (torch's and JAX's are the same) -> Triton's.
DTYPES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    "float8_e4m3b11fnuz": "fp8e4b15",
}
# Triton's dtype -> bytes of an element in memory; a bool is stored as a byte.
ITEMSIZE = {
    **dict.fromkeys(("i1", "i8", "u8", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"), 1),
    **dict.fromkeys(("i16", "u16", "fp16", "bf16"), 2),
    **dict.fromkeys(("i32", "u32", "fp32"), 4),
    **dict.fromkeys(("i64", "u64", "fp64"), 8),
}


@dataclass(frozen=True, slots=True)
class ArrayView:
    """What a launch needs of an array. `address` is that of element 0, also where strides are negative.

    `dtype` is Triton's name. `shape` is in elements, `strides` in bytes; both are None where the library does not tell.
    `extent` is the range [low, high) of the bytes of all elements, None where unknown, and low == high where empty.
    `owner` keeps the memory alive.
    """

    address: int
    dtype: str
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    writeable: bool
    extent: tuple[int, int] | None
    library: str
    owner: Any


@dataclass(frozen=True, slots=True)
class Where:
    """The argument that an error is about."""

    kernel: str = ""
    parameter: str = ""

    def __str__(self) -> str:
        kernel = f"kernel {self.kernel!r}, " if self.kernel else ""
        return f"{kernel}parameter {self.parameter!r}" if self.parameter else f"{kernel}an argument"

    def type_error(self, expected: str, got: str, advice: str) -> ArgumentTypeError:
        return ArgumentTypeError(f"{self}: expected {expected}, got {got}; {advice}")

    def value_error(self, expected: str, got: str, advice: str) -> ArgumentValueError:
        return ArgumentValueError(f"{self}: expected {expected}, got {got}; {advice}")


def view(obj: object, kernel: str = "", parameter: str = "") -> ArrayView | None:
    """Look at an array; None where `obj` is not one (a number, None, a string ...).

    Args:
        obj: anything.
        kernel: name of the kernel, for the text of an error.
        parameter: name of the kernel's parameter, likewise.

    Raises:
        ArgumentTypeError: an array that no kernel on the CPU can take: of another device, a dtype that Triton does not
            have, non-native byte order, sparse, traced ...
        ArgumentValueError: an array that could be passed in another form, e.g. one with unaligned elements.
    """
    return view_at(obj, Where(kernel, parameter))


def view_at(obj: object, where: Where) -> ArrayView | None:
    """`view`, for a caller that keeps the `Where` of a parameter."""
    type_: Any = type(obj)
    adapter = _adapter(type_)
    if adapter is not None:
        return adapter(obj, where)
    for protocol in PROTOCOLS:
        found = protocol(obj, where)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=512)  # bounded: a type made in a function must not live for ever
def _adapter(type_: Any) -> Adapter | None:
    """The adapter of the first base class whose library has one."""
    found = (ADAPTERS.get(base.__module__.partition(".")[0]) for base in type_.__mro__[:-1])
    return next((adapter for adapter in found if adapter is not None), None)


def extent_of(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """The bytes [low, high) that the elements of an array cover; strides in bytes."""
    if 0 in shape:
        return address, address
    low = high = address
    for extent, stride in zip(shape, strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + itemsize


def _dtype(name: str, where: Where, got: str) -> str:
    dtype = DTYPES.get(name)
    if dtype is None:
        raise where.type_error("an array of a dtype that Triton has", got, "convert it first, e.g. to float32")
    return dtype


def _is_aligned(array: ArrayView) -> bool:
    size = ITEMSIZE[array.dtype]
    if array.address % size:
        return False
    return all(not stride % size for stride in array.strides or ()) or all(
        extent <= 1 or not stride % size for extent, stride in zip(array.shape or (), array.strides or (), strict=True)
    )


def _refuse_alignment(array: ArrayView, where: Where, got: str) -> NoReturn:
    expected = f"elements at multiples of {ITEMSIZE[array.dtype]} bytes"
    raise where.value_error(expected, got + " with unaligned elements", "pass a copy")


# ---- libraries ----


@cache
def numpy_dtype(dtype: np.dtype[Any]) -> str | None:
    """Triton's name of a dtype that a kernel can take as it is; None for every other."""
    return DTYPES.get(dtype.name) if dtype.isnative else None


def _numpy(obj: Any, where: Where) -> ArrayView | None:
    if not isinstance(obj, np.ndarray):
        return None
    dtype = numpy_dtype(obj.dtype)
    if dtype is None:
        _refuse_dtype(obj.dtype, where)
    masked = sys.modules.get("numpy.ma")  # takes long to import, and without it there are no such arrays
    if masked is not None and isinstance(obj, masked.MaskedArray):
        raise where.type_error("a plain array", "a numpy masked array", "pass a.filled(value) or a.data and a.mask")
    address, shape, strides = obj.ctypes.data, obj.shape, obj.strides
    extent = extent_of(address, shape, strides, obj.itemsize)
    found = ArrayView(address, dtype, shape, strides, obj.flags.writeable, extent, "numpy", obj)
    if not obj.flags.aligned or not _is_aligned(found):
        _refuse_alignment(found, where, f"a numpy array of {obj.dtype}")
    return found


def _refuse_dtype(dtype: np.dtype[Any], where: Where) -> NoReturn:
    if not dtype.isnative:
        advice = "pass a.astype(a.dtype.newbyteorder('=')) instead"
        raise where.type_error("an array in native byte order", f"a numpy array of {dtype.str!r}", advice)
    got = f"a numpy array of {dtype}"
    if dtype.hasobject or dtype.names is not None:
        raise where.type_error("an array of numbers", got, "a kernel cannot see Python objects or fields")
    raise where.type_error("an array of a dtype that Triton has", got, "convert it first, e.g. to float32")


@cache
def _torch_dtype(dtype: object) -> str | None:
    return DTYPES.get(str(dtype).removeprefix("torch."))


def _torch(obj: Any, where: Where) -> ArrayView | None:
    torch = sys.modules["torch"]
    if not isinstance(obj, torch.Tensor):
        return None
    dtype = _torch_dtype(obj.dtype)
    if obj.device.type != "cpu" or obj.layout != torch.strided or dtype is None:
        _refuse_torch(obj, where)
    if obj.is_quantized or obj.is_neg() or obj.is_conj() or type(obj).__name__ in ("FakeTensor", "FunctionalTensor"):
        _refuse_torch(obj, where)
    try:
        address = obj.data_ptr()
    except RuntimeError as error:  # tensors inside vmap or grad
        raise _no_storage(obj, where) from error
    size = obj.element_size()
    shape, strides = tuple(obj.shape), tuple(stride * size for stride in obj.stride())
    extent = extent_of(address, shape, strides, size)
    if address == 0 and extent[0] != extent[1]:
        raise _no_storage(obj, where)
    found = ArrayView(address, dtype, shape, strides, True, extent, "torch", obj)
    if not _is_aligned(found):
        _refuse_alignment(found, where, _torch_name(obj))
    return found


def _torch_name(obj: Any) -> str:
    return f"a torch tensor of {str(obj.dtype).removeprefix('torch.')} on {obj.device}"


def _no_storage(obj: Any, where: Where) -> ArgumentTypeError:
    advice = "wrap the kernel as an operator to use it under tracing, vmap or grad"
    return where.type_error("a tensor with data", f"a {type(obj).__name__} without storage", advice)


def _refuse_torch(obj: Any, where: Where) -> NoReturn:
    torch = sys.modules["torch"]
    got = _torch_name(obj)
    if obj.device.type != "cpu":
        raise where.type_error("a tensor on the CPU", got, "move it with .cpu(), or launch the kernel on its device")
    if obj.layout != torch.strided:
        layout = str(obj.layout).removeprefix("torch.")
        raise where.type_error(
            "a strided tensor", f"a torch tensor of layout {layout}", "pass .to_dense() or its parts"
        )
    if obj.is_quantized:
        raise where.type_error(
            "a tensor of plain numbers", "a quantised torch tensor", "pass .int_repr() and the scale"
        )
    if _torch_dtype(obj.dtype) is None:
        raise where.type_error("an array of a dtype that Triton has", got, "convert it first, e.g. to float32")
    if obj.is_neg() or obj.is_conj():
        raise where.value_error(
            "a materialised tensor", got + " with a lazy sign", "pass .resolve_neg().resolve_conj()"
        )
    raise _no_storage(obj, where)


def _jax(obj: Any, where: Where) -> ArrayView | None:
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    if isinstance(obj, jax.core.Tracer):
        advice = "use omnikernel.jax.triton_call inside jit, vmap and grad"
        raise where.type_error("a concrete JAX array", f"a traced value of {obj.aval.str_short()}", advice)
    if not isinstance(obj, jax.Array):
        return None
    dtype = numpy_dtype(obj.dtype) if isinstance(obj.dtype, np.dtype) else None  # keys have a dtype of JAX's own
    devices = () if obj.is_deleted() else obj.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu" or dtype is None:
        _refuse_jax(obj, where)
    address = obj.block_until_ready().unsafe_buffer_pointer()  # the pointer alone does not wait for the values
    shape, size = tuple(obj.shape), ITEMSIZE[dtype]
    strides = tuple(size * prod(shape[d + 1 :]) for d in range(len(shape)))
    return ArrayView(address, dtype, shape, strides, False, extent_of(address, shape, strides, size), "jax", obj)


def _refuse_jax(obj: Any, where: Where) -> NoReturn:
    got = f"a JAX array of {obj.dtype}"
    if obj.is_deleted():
        raise where.value_error("a live array", got + " that was deleted or donated", "pass the array that replaced it")
    devices = obj.devices()
    if len(devices) != 1 or next(iter(devices)).platform != "cpu":
        places = ", ".join(sorted(map(str, devices)))
        advice = "move it with jax.device_put(a, jax.devices('cpu')[0]), or use omnikernel.jax.triton_call"
        raise where.type_error("an array on one CPU device", f"{got} on {places}", advice)
    raise where.type_error("an array of a dtype that Triton has", got, "convert it first, e.g. to float32")


# ---- protocols, for every other type ----


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_READ_ONLY, _COPIED = 1, 2  # DLPACK_FLAG_BITMASK_*, dlpack.h 1.0
_HOST_DEVICES = {1: "CPU", 3: "CUDA pinned host", 11: "ROCm host"}  # DLDeviceType whose memory the CPU may touch
# DLDataTypeCode and bits -> Triton's dtype, dlpack.h 1.1.
_DLPACK_DTYPES = {
    **{(0, 8 * n): f"i{8 * n}" for n in (1, 2, 4, 8)},
    **{(1, 8 * n): f"u{8 * n}" for n in (1, 2, 4, 8)},
    **{(2, 8 * n): f"fp{8 * n}" for n in (2, 4, 8)},
    (4, 16): "bf16",
    (6, 8): "i1",
    (9, 8): "fp8e4b15",
    (10, 8): "fp8e4nv",
    (11, 8): "fp8e4b8",
    (12, 8): "fp8e5",
    (13, 8): "fp8e5b16",
}


def _capsule_pointer(capsule: object, name: bytes) -> int | None:
    """The pointer in a capsule of exactly this name."""
    api = ctypes.pythonapi
    is_valid, get = api.PyCapsule_IsValid, api.PyCapsule_GetPointer
    is_valid.argtypes, is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    if not is_valid(capsule, name):
        return None
    pointer: int | None = get(capsule, name)
    return pointer


def _dlpack_capsule(obj: Any) -> object:
    try:
        return obj.__dlpack__(max_version=(1, 1))
    except TypeError:  # a producer from before DLPack 1.0 does not know the argument
        return obj.__dlpack__()


def _dlpack(obj: Any, where: Where) -> ArrayView | None:
    if not (hasattr(type(obj), "__dlpack__") and hasattr(type(obj), "__dlpack_device__")):
        return None
    got = f"a {type(obj).__module__}.{type(obj).__qualname__}"
    device = int(obj.__dlpack_device__()[0])
    if device not in _HOST_DEVICES:
        advice = "copy it to the CPU, or launch the kernel on its device"
        raise where.type_error("an array in CPU memory", f"{got} on DLPack device {device}", advice)
    try:
        capsule = _dlpack_capsule(obj)
    except BufferError as error:
        raise where.type_error("an array that DLPack can describe", got, f"its library says: {error}") from error
    versioned, pointer = _capsule_pointer(capsule, b"dltensor_versioned"), None
    if versioned is not None:
        described = _Versioned.from_address(versioned)
        if described.major != 1:
            raise where.type_error("DLPack 1", f"{got} with DLPack {described.major}", "use a newer omnikernel")
        tensor, writeable = described.tensor, not described.flags & (_READ_ONLY | _COPIED)
    else:
        pointer = _capsule_pointer(capsule, b"dltensor")
        if pointer is None:
            raise where.type_error("a fresh DLPack capsule", got, "its __dlpack__ returned something else")
        tensor, writeable = _DLTensor.from_address(pointer), True
    return _dltensor_view(tensor, writeable, (obj, capsule), where, got)


def _dltensor_view(tensor: _DLTensor, writeable: bool, owner: Any, where: Where, got: str) -> ArrayView:
    dtype = _DLPACK_DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        described = f"{got} of DLPack dtype code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        raise where.type_error("an array of a dtype that Triton has", described, "convert it first, e.g. to float32")
    size = tensor.bits // 8
    shape = tuple(tensor.shape[d] for d in range(tensor.ndim))
    dense = np.cumprod((1, *shape[:0:-1]))[::-1].tolist() if shape else []
    strides = tuple(size * (tensor.strides[d] if tensor.strides else dense[d]) for d in range(tensor.ndim))
    address = (tensor.data or 0) + tensor.byte_offset
    extent = extent_of(address, shape, strides, size)
    found = ArrayView(address, dtype, shape, strides, writeable, extent, "dlpack", owner)
    if not _is_aligned(found):
        _refuse_alignment(found, where, got)
    return found


class _InterfaceOnly:
    """Hands an `__array_interface__` to NumPy, whatever else its owner can do."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


_NUMPY_NAMES = {triton: name for name, triton in DTYPES.items()}


def as_numpy(found: ArrayView) -> np.ndarray[Any, Any]:
    """A NumPy array over the same memory, which it keeps alive; dtypes that NumPy lacks are those of `ml_dtypes`.

    Args:
        found: a view with a shape.
    """
    name, shape = _NUMPY_NAMES[found.dtype], found.shape
    assert shape is not None
    if not hasattr(np, name):
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name))
    else:
        dtype = np.dtype(name)
    if 0 in shape:
        return np.empty(shape, dtype)
    bits = f"|u{dtype.itemsize}" if dtype.itemsize == 1 else np.dtype(f"u{dtype.itemsize}").str
    data = (found.address, not found.writeable)
    interface = {"data": data, "shape": shape, "strides": found.strides, "typestr": bits, "version": 3}
    return np.asarray(_InterfaceOnly(interface, found.owner)).view(dtype)


def _array_interface(obj: Any, where: Where) -> ArrayView | None:
    interface = getattr(obj, "__array_interface__", None)
    if not isinstance(interface, dict):
        return None
    array = np.asarray(_InterfaceOnly(interface, obj))
    return _relabel(_numpy(array, where), "array interface", (array, obj))


def _buffer(obj: Any, where: Where) -> ArrayView | None:
    try:
        memory = memoryview(obj)
    except (TypeError, BufferError):
        return None
    got = f"a buffer of format {memory.format!r}"
    try:
        array = np.asarray(memory)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise where.type_error("a buffer of numbers", got, f"NumPy says: {error}") from error
    return _relabel(_numpy(array, where), "buffer", (array, obj))


def _relabel(found: ArrayView | None, library: str, owner: Any) -> ArrayView | None:
    return replace(found, library=library, owner=owner) if found is not None else None


def _data_ptr(obj: Any, where: Where) -> ArrayView | None:
    """Triton's own rule: whatever has `data_ptr()` and `dtype`, e.g. `triton.reinterpret(tensor, dtype)`."""
    if not (callable(getattr(obj, "data_ptr", None)) and hasattr(obj, "dtype")):
        return None
    name = str(obj.dtype).removeprefix("torch.")
    dtype = (
        name if name in ITEMSIZE else "i1" if name in ("u1", "int1") else _dtype(name, where, f"an object of {name}")
    )
    base = getattr(obj, "base", None)
    inner = view(base, where.kernel, where.parameter) if base is not None else None
    address = int(obj.data_ptr())
    if inner is None:
        return ArrayView(address, dtype, None, None, True, None, "data_ptr", obj)
    extent = inner.extent if address == inner.address else None
    return ArrayView(address, dtype, None, None, inner.writeable, extent, inner.library, obj)


Adapter = Callable[[Any, Where], ArrayView | None]
ADAPTERS: dict[str, Adapter] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
}
PROTOCOLS: tuple[Adapter, ...] = (_dlpack, _array_interface, _buffer, _data_ptr)
