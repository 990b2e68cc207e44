"""CUDA kernels on NVIDIA GPUs: arrays there, streams, launches.

In: a kernel, the dimensions of a launch and values of which at least one is an array of a GPU. Out: the kernel is queued on the
stream that the arrays' library is using. All arrays are on one device. Errors of CUDA name the kernel.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

from ..errors import ArgumentTypeError
from ..runtime.arrays import DTYPES, ITEMSIZE, ArrayView, Where, extent_of
from .arguments import Packed, pack
from .driver import CudaError, check, driver
from .gpu_source import GpuRecipe, compiler_missing, cubin
from .source import Function

_PLAIN_SHARED = 49152  # bytes that a block may have without asking
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CLUSTER_ALLOWED = 11  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def available() -> bool:
    """There is a GPU, and a compiler for it."""
    return driver() is not None and compiler_missing() is None


def device_of(value: Any) -> int | None:
    """The number of the GPU that holds the array; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return int(value.device.index) if value.device.type == "cuda" else None
    kind: Any = type(value)
    if kind.__module__.partition(".")[0] == "cupy":
        return int(value.device.id)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        device = next(iter(value.devices()))
        return int(device.local_hardware_id or 0) if device.platform in ("gpu", "cuda") else None
    interface = getattr(value, "__cuda_array_interface__", None)
    return pointer_device(interface["data"][0]) if isinstance(interface, dict) else None


def pointer_device(address: int) -> int:
    """The number of the GPU whose memory this is."""
    ordinal = ctypes.c_int(0)
    if address and driver() is not None:
        check(driver().cuPointerGetAttribute(ctypes.byref(ordinal), 9, ctypes.c_uint64(address)), "an array of a GPU")
    return ordinal.value


def look(device: int) -> Callable[[Any, Where], ArrayView | None]:
    """How to read the arrays of a launch on this GPU."""

    def read(value: Any, where: Where) -> ArrayView | None:
        found = device_of(value)
        if found is None:
            _refuse_elsewhere(value, where, device)
            return None
        if found != device:
            raise where.type_error(f"an array on cuda:{device}", f"one on cuda:{found}", "move it there first")
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return _torch(value, where)
        jax = sys.modules.get("jax")
        if jax is not None and isinstance(value, jax.Array):
            value.block_until_ready()
            dtype, shape, size = _dtype(value.dtype.name, where), tuple(value.shape), value.dtype.itemsize
            strides = tuple(size * prod(shape[d + 1 :]) for d in range(len(shape)))
            return _view(value.unsafe_buffer_pointer(), dtype, shape, strides, False, "jax", value)
        interface = value.__cuda_array_interface__
        address, read_only = interface["data"]
        import numpy as np

        kind = np.dtype(getattr(value, "dtype", interface["typestr"]))
        shape = tuple(interface["shape"])
        dense = tuple(kind.itemsize * prod(shape[d + 1 :]) for d in range(len(shape)))
        strides = tuple(interface.get("strides") or dense)
        library = type(value).__module__.partition(".")[0]
        return _view(address or 0, _dtype(kind.name, where), shape, strides, not read_only, library, value)

    return read


def _refuse_elsewhere(value: Any, where: Where, device: int) -> None:
    """An array that is not on a GPU is refused; no array is for the caller to refuse."""
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        kind = type(value)
        place = getattr(value, "device", "the CPU")
        got = f"a {kind.__module__.partition('.')[0]} array on {place}"
        raise where.type_error(f"an array on cuda:{device}, where the others are", got, "move it there first")


def _torch(value: Any, where: Where) -> ArrayView:
    torch = sys.modules["torch"]
    if value.layout != torch.strided or value.is_neg() or value.is_conj():
        raise where.type_error("a plain strided tensor", "another layout or a lazy sign", "materialise it first")
    size = value.element_size()
    strides = tuple(stride * size for stride in value.stride())
    dtype = _dtype(str(value.dtype).removeprefix("torch."), where)
    return _view(value.data_ptr(), dtype, tuple(value.shape), strides, True, "torch", value)


def _dtype(name: str, where: Where) -> str:
    if name not in DTYPES:
        raise where.type_error("an array of numbers", f"an array of {name}", "convert it first, e.g. to float32")
    return DTYPES[name]


def _view(
    address: int,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    writeable: bool,
    library: str,
    owner: Any,
) -> ArrayView:
    extent = extent_of(address, shape, strides, ITEMSIZE[dtype])
    return ArrayView(address, dtype, shape, strides, writeable, extent, library, owner)


def current_stream(values: Sequence[Any], device: int) -> int:
    """The stream that the arrays' library is using: torch's first, then CuPy's, then the default one."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in values):
        return int(torch.cuda.current_stream(device).cuda_stream)
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(value, cupy.ndarray) for value in values):
        with cupy.cuda.Device(device):
            return int(cupy.cuda.get_current_stream().ptr)
    for value in values:
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(interface, dict) and interface.get("stream"):
            return int(interface["stream"])
    return 0


def stream_address(stream: Any) -> int:
    """The address of a stream: a number, torch's or CuPy's object, or one with `__cuda_stream__`."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise ArgumentTypeError(f"expected a CUDA stream, got {stream!r} of type {type(stream).__name__}")


@cache
def capability(device: int) -> int:
    """The compute capability of a GPU, e.g. 90."""
    found = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        check(driver().cuDeviceGetAttribute(ctypes.byref(value), attribute, device), f"cuda:{device}")
        found.append(value.value)
    return found[0] * 10 + found[1]


@cache
def _context(device: int) -> ctypes.c_void_p:
    """The primary context of a GPU, which all libraries of the process share."""
    context = ctypes.c_void_p()
    check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device), f"cuda:{device}")
    return context


@dataclass(slots=True)
class GpuSource:
    """One CUDA source on the GPUs of this process: loaded kernels by device, index width and name."""

    recipe: GpuRecipe
    prebuilt: Callable[[int, int], bytes | None] | None = None  # capability and index width to a cubin
    handles: dict[tuple[int, int, str], ctypes.c_void_p] = field(default_factory=dict)

    def compile(self, device: int, bits: int = 32) -> None:
        """Compile without loading, for the errors."""
        self._cubin(device, bits)

    def _cubin(self, device: int, bits: int) -> bytes:
        found = self.prebuilt(capability(device), bits) if self.prebuilt is not None else None
        return cubin(self._for(device, bits)).read_bytes() if found is None else found

    def _for(self, device: int, bits: int) -> GpuRecipe:
        return replace(self.recipe, bits=bits, capability=capability(device))

    def handle(self, kernel: str, device: int, bits: int) -> ctypes.c_void_p:
        """The loaded kernel; the device's context is current."""
        found = self.handles.get((device, bits, kernel))
        if found is not None:
            return found
        data = self._cubin(device, bits)
        module = ctypes.c_void_p()
        check(driver().cuModuleLoadData(ctypes.byref(module), data), f"module {self.recipe.name!r}")
        for function in self.recipe.kernels:
            one = ctypes.c_void_p()
            code = driver().cuModuleGetFunction(ctypes.byref(one), module, f"ok_k_{function.name}".encode())
            check(code, f"kernel {function.name!r}")
            self.handles[device, bits, function.name] = one
        return self.handles[device, bits, kernel]

    def launch(self, function: Function, shape: Any, values: Sequence[Any], device: int) -> None:
        """Check the arguments and queue the kernel.

        Args:
            function: the kernel.
            shape: a `module.Launch`.
            values: one for each parameter.
            device: the GPU that holds the arrays.

        Raises:
            ArgumentTypeError, ArgumentValueError: an argument that does not fit, or is on another device.
            CudaError: the driver refused the launch; in checked builds also what the kernel did wrong.
        """
        packed = pack(function, values, look(device))
        if 0 in shape.grid:
            return
        where = f"kernel {function.name!r}"
        bits = 32 if _fits(function, packed) else 64
        parameters, kept = _parameters(function, packed, bits, self.recipe.checked)
        stream = current_stream(values, device) if shape.stream is None else stream_address(shape.stream)
        with on_device(device, where):
            handle = self.handle(function.name, device, bits)
            if shape.cluster is not None and prod(shape.cluster) > 8:
                check(driver().cuFuncSetAttribute(handle, _CLUSTER_ALLOWED, 1), where)
            queue(handle, shape.grid, shape.block, shape.shared_bytes, stream, parameters, where, _attributes(shape))
            del kept
            if self.recipe.checked and not _capturing(stream):
                check(driver().cuStreamSynchronize(ctypes.c_void_p(stream)), where)


@contextmanager
def on_device(device: int, where: str) -> Iterator[None]:
    """The GPU's primary context is the current one meanwhile."""
    check(driver().cuCtxPushCurrent_v2(_context(device)), where)
    try:
        yield
    finally:
        driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def queue(
    handle: ctypes.c_void_p,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    stream: int,
    parameters: Any,
    where: str,
    attributes: Any = None,
) -> None:
    """Queue a kernel on a stream; the device's context is current.

    Args:
        handle: the loaded kernel.
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        shared_bytes: dynamic shared memory of a block.
        stream: its address.
        parameters: an array of pointers to the parameters.
        where: the kernel, for the text of an error.
        attributes: an array of launch attributes.

    Raises:
        CudaError: the driver refused the launch.
    """
    if shared_bytes > _PLAIN_SHARED:
        check(driver().cuFuncSetAttribute(handle, _MAX_DYNAMIC_SHARED, shared_bytes), where)
    given = (_Attribute * 0)() if attributes is None else attributes
    extents = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
    config = _Config(*extents, shared_bytes, stream, given, len(given))
    check(driver().cuLaunchKernelEx(ctypes.byref(config), handle, parameters, None), where)


def _capturing(stream: int) -> bool:
    status = ctypes.c_int(0)
    driver().cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
    return status.value != 0


def _attributes(shape: Any) -> Any:
    wanted = []
    if shape.cluster is not None:
        wanted.append((_CLUSTER, shape.cluster))
    if shape.cooperative:
        wanted.append((_COOPERATIVE, (1,)))
    found = (_Attribute * max(1, len(wanted)))()
    for attribute, (number, values) in zip(found, wanted, strict=False):
        attribute.id = number
        for index, value in enumerate(values):
            attribute.value[index] = value
    return (_Attribute * len(wanted)).from_buffer(found)


def _fits(function: Function, packed: Packed) -> bool:
    """Whether every offset of every view fits 32 bits."""
    slot = 0
    for parameter in function.parameters:
        rank = parameter.type.rank
        if parameter.type.form != "view":
            slot += 1
            continue
        sizes, strides = packed.slots[slot + 1 : slot + 1 + rank], packed.slots[slot + 1 + rank : slot + 1 + 2 * rank]
        reach = sum(max(0, size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True))
        if reach >= 2**31 or any(
            size >= 2**31 or abs(stride) >= 2**31 for size, stride in zip(sizes, strides, strict=True)
        ):
            return False
        slot += 1 + 2 * rank
    return True


def _parameters(function: Function, packed: Packed, bits: int, checked: bool) -> tuple[Any, list[Any]]:
    """The array of pointers to parameters that the driver takes, and what they point to.

    A view is laid out as in the header.
    """
    number = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    kept: list[Any] = []
    slot = 0
    for parameter in function.parameters:
        rank = parameter.type.rank
        if parameter.type.form != "view":
            kept.append(ctypes.c_uint64(packed.slots[slot] & (1 << 64) - 1))
            slot += 1
            continue
        numbers = packed.slots[slot + 1 : slot + 1 + 2 * rank]
        data = bytes(ctypes.c_uint64(packed.slots[slot])) + bytes((number * (2 * rank))(*numbers))
        data += bytes(8) if checked else b""
        kept.append(ctypes.create_string_buffer(data, len(data)))
        slot += 1 + 2 * rank
    array = (ctypes.c_void_p * max(1, len(kept)))(*(ctypes.addressof(one) for one in kept))
    return array, kept  # ctypes copies addresses only


__all__ = ["CudaError", "GpuRecipe", "GpuSource", "available", "device_of"]
