"""The driver of backend `cpu`: which device is current, what it offers, how a binary is loaded and timed.

Loaded in the middle of `import triton`: at the top only `triton.backends` may be imported. Instances hold no state,
since Triton and torch each make their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from .availability import selected, usable

# Triton keeps compiled kernels by the device's number alone, so ours must differ from every GPU's.
DEVICE = -1
_TARGET = GPUTarget("cpu", "", 32)
_C_TYPES = {
    "i1": "int8_t",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u1": "uint8_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "fp16": "double",
    "bf16": "double",
    "fp32": "double",
    "f32": "double",
    "fp64": "double",
    "nvTmaDesc": "void*",
}


class CPUUtils:
    """Loads binaries and describes the device, as Triton's runtime and libraries ask."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Load packed object code.

        Returns:
            (module, function, registers, spills, most threads). Both handles are the packed bytes: the launcher links
            them, and shares the result between kernels that are the same. The numbers are nominal, none is 0 that
            libraries divide by, and no spills: Inductor drops configurations that spill.
        """
        return binary, binary, 32, 0, 1 << 30

    def unload_module(self, module: Any) -> None:
        """Code lives as long as a launcher refers to it."""

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """What libraries read to choose grids: processors that run programs at once, and nominal GPU limits."""
        return {
            "max_shared_mem": (1 << 31) - 1,
            "max_num_regs": 65536,
            "multiprocessor_count": _threads(),
            "warpSize": 32,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 64,
        }


def _threads() -> int:
    from ..runtime import pool

    return int(pool.get_num_threads())


class CPUEvent:
    """A point in time, with the methods of a GPU event."""

    def __init__(self, enable_timing: bool = True, **_: Any) -> None:
        self.at = 0

    def record(self, stream: Any = None) -> None:
        self.at = perf_counter_ns()

    def synchronize(self) -> None:
        """Launches are over when they return."""

    def elapsed_time(self, later: CPUEvent) -> float:
        """Milliseconds from here to a later event, never 0: callers divide by it."""
        return max(later.at - self.at, 1) / 1e6


class CPUInterface:
    """The little of torch's device interface that `triton.testing` uses, without torch."""

    Event = CPUEvent

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Launches are over when they return."""

    @staticmethod
    def current_device() -> int:
        return DEVICE

    @staticmethod
    def device(device: Any = None) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class CPUDriver(DriverBase):  # type: ignore[misc]
    """Triton's driver for the CPU."""

    def __init__(self) -> None:
        from ..runtime.launch import Launcher
        from . import hooks

        hooks.install()
        super().__init__()
        self.utils = CPUUtils()
        self.launcher_cls = Launcher

    @staticmethod
    def is_active() -> bool:
        """True if `TRITON_DEFAULT_BACKEND` says so, else if no GPU's driver is active: Triton wants exactly one."""
        if not usable():
            return False
        if selected() == "cpu":
            return True
        from triton.backends import backends

        return not any(other.driver.is_active() for name, other in backends.items() if name != "cpu")

    def get_current_device(self) -> int:
        return DEVICE

    def set_current_device(self, device: int) -> None:
        """There is one CPU."""

    def get_current_stream(self, device: int = DEVICE) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return _TARGET

    def get_active_torch_device(self) -> Any:
        """torch's CPU device; needs torch."""
        import torch

        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of a Triton type, e.g. `i32` -> `int32_t`, `*fp16` -> `void*`."""
        return "void*" if ty.startswith("*") else _C_TYPES[ty]

    def get_benchmarker(self) -> Callable[..., Any]:
        from .benchmark import bench

        return bench

    def get_device_interface(self) -> type[CPUInterface]:
        return CPUInterface

    def get_empty_cache_for_benchmark(self) -> None:
        """Nothing: on a CPU warm caches are what a caller sees, and clearing them takes longer than most kernels."""

    def clear_cache(self, cache: Any) -> None:
        """See `get_empty_cache_for_benchmark`."""

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Zeroed scratch memory for Triton's profiler.

        Returns:
            A NumPy array of `size` bytes whose address is a multiple of `alignment`.
        """
        import numpy as np

        whole = np.zeros(size + alignment, np.uint8)
        skip = -whole.ctypes.data % alignment
        return whole[skip : skip + size]
