"""Prebuilt Triton kernels on NVIDIA GPUs: which code fits a GPU, and launches through CUDA's driver alone.

In: a form that fits, values, a grid. Out: the kernel is queued on the stream that the arrays' library is using. A cubin runs on
GPUs of its major compute capability from its minor one on; PTX of a portable target on every newer GPU.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..cpp import gpu as cuda
from ..cpp.driver import check, driver
from ..errors import ArgumentValueError
from ..runtime.launch import float_bits
from . import fit
from .package import Shipped

current_stream = cuda.current_stream
look = cuda.look
_WARP = 32
_LIBRARIES = ("torch", "cupy", "jax", "jaxlib")


def device(values: Iterable[Any]) -> int | None:
    """The number of the GPU that holds the first array that is on one; None where there is none."""
    if not any(name in sys.modules for name in _LIBRARIES):
        return None
    return next((found for found in map(_device, values) if found is not None), None)


def _device(value: Any) -> int | None:
    root = type(value).__module__.partition(".")[0]
    return None if root in ("builtins", "numpy", "ml_dtypes") else cuda.device_of(value)


def capability_of(architecture: str) -> int:
    """The compute capability of an architecture, e.g. 90 of `sm_90`.

    Raises:
        ArgumentValueError: it is no architecture.
    """
    match = re.fullmatch(r"sm_(\d{2,3})", architecture)
    if match is None:
        raise ArgumentValueError(f"expected a GPU architecture like sm_80 or sm_90, got {architecture!r}")
    return int(match[1])


def capability_text(number: int) -> str:
    """The compute capability of a GPU as people write it."""
    return "{}.{}".format(*divmod(cuda.capability(number), 10))


def code_for(built: Mapping[str, Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    """What runs on this GPU, the closest first; empty where nothing does."""
    return best(built, cuda.capability(number))


def best(built: Mapping[str, Mapping[str, Any]], capability: int) -> Mapping[str, Any]:
    """What runs on a GPU of this compute capability (90 for 9.0): a cubin of its own generation, else PTX."""
    found: tuple[tuple[bool, int], Mapping[str, Any]] | None = None
    for entry in built.values():
        arch = entry["arch"]
        same = arch // 10 == capability // 10 and arch <= capability
        if same and (not entry["specific"] or arch == capability):
            rank = (True, arch)
        elif arch <= capability and not entry["specific"]:
            rank = (False, arch)
        else:
            continue
        if found is None or rank > found[0]:
            found = (rank, {**entry, "file": entry["cubin"] if rank[0] else entry["ptx"]})
    return found[1] if found is not None else {}


def best_cubin(built: Mapping[str, Mapping[str, Any]], capability: int) -> Mapping[str, Any]:
    """The cubins that run on a GPU of this compute capability; empty where none do."""
    fit_here = [one for one in built.values() if one["arch"] // 10 == capability // 10 and one["arch"] <= capability]
    return max(fit_here, key=lambda one: int(one["arch"]), default={})


@dataclass(slots=True)
class Modules:
    """The loaded code of one kernel, by device and file."""

    package: Shipped
    handles: dict[tuple[int, str], ctypes.c_void_p] = field(default_factory=dict)

    def launch(
        self,
        name: str,
        form: fit.Form,
        code: Mapping[str, Any],
        grid: Sequence[int],
        arguments: Sequence[fit.Argument],
        stream: int,
        number: int,
    ) -> None:
        """Queue the kernel.

        Args:
            name: the kernel's, for errors.
            form: what fits.
            code: its entry for this GPU.
            grid: one to three extents.
            arguments: one for each slot.
            stream: the address of the stream to queue it on.
            number: the GPU.

        Raises:
            CudaError: the driver refused.
        """
        x, y, z = (*grid, 1, 1)[:3]
        if 0 in (x, y, z):
            return
        where = f"kernel {name!r}"
        slots = zip(form.about["slots"], arguments, strict=True)
        kept = [ctypes.c_uint64(_bits(argument, kind)) for (_, kind, _, _), argument in slots]
        kept += [
            ctypes.c_uint64(0) for _ in range(code["scratch"])
        ]  # pointers to scratch memory, which it does not use
        parameters = (ctypes.c_void_p * max(1, len(kept)))(*(ctypes.addressof(one) for one in kept))
        with cuda.on_device(number, where):
            handle = self._handle(code, number, where)
            block = (_WARP * code["num_warps"], 1, 1)
            cuda.queue(handle, (x, y, z), block, code["shared"], stream, parameters, where)

    def _handle(self, code: Mapping[str, Any], number: int, where: str) -> ctypes.c_void_p:
        found = self.handles.get((number, code["file"]))
        if found is None:
            module, found = ctypes.c_void_p(), ctypes.c_void_p()
            data = self.package.read(code["file"]) + b"\0"  # PTX is text that ends with a zero
            check(driver().cuModuleLoadData(ctypes.byref(module), data), where)
            check(driver().cuModuleGetFunction(ctypes.byref(found), module, code["symbol"].encode()), where)
            self.handles[number, code["file"]] = found
        return found


def _bits(argument: fit.Argument, kind: str) -> int:
    """A parameter as the driver reads it: Triton's kernels take addresses and numbers as they are."""
    value = argument.value
    return float_bits(value, kind) if isinstance(value, float) else int(value) & (1 << 64) - 1
