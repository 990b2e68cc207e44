"""Two faults of torch's Inductor that show when it emits Triton for the CPU, worked around where asked for.

In: torch with `torch._inductor.config.cpu_backend = "triton"`. Out: benchmarks of fused kernels and `max_autotune` matmul
templates work too. Nothing here is needed for operators, for launches in compiled functions, or for that setting alone.
"""

from __future__ import annotations

import contextlib
from typing import Any

__all__ = ["patch"]


def patch() -> tuple[str, ...]:
    """Mend torch in this process; a second call does nothing.

    * `benchmark_kernel`, and fusion that is decided by measuring: the source of a stream getter for the CPU is several
      lines, which Inductor splices into an indented block.
    * `max_autotune_gemm_backends="TRITON"`: the CPU's device interface has no `device` context manager.

    Returns:
        What was changed; empty where this torch needs nothing.
    """
    from torch._dynamo.device_interface import CpuInterface, DeviceInterface
    from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides

    changed = []
    overrides: Any = CpuDeviceOpOverrides
    if "\n" in overrides().import_get_raw_stream_as("name").strip():
        overrides.import_get_raw_stream_as = lambda self, name: f"{name} = lambda _: 0"
        changed.append("CpuDeviceOpOverrides.import_get_raw_stream_as")
    interface: Any = CpuInterface
    if interface.device is DeviceInterface.device:
        interface.device = staticmethod(lambda index=None: contextlib.nullcontext())
        changed.append("CpuInterface.device")
    return tuple(changed)
