"""Launches on a GPU as CUDA's driver sees them, on a machine that has none: a driver that writes down what it is told."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shipping

import omnikernel
from omnikernel.cpp import gpu as cuda
from omnikernel.errors import CorruptArtefact, ShippedError
from omnikernel.runtime.arrays import view_at
from omnikernel.ship import gpu, handles, project

KERNELS = """
import omnikernel
import triton
import triton.language as tl

@omnikernel.prebuild("*fp32, *fp32, i32, fp32", constants={"BLOCK": 128, "num_warps": 2})
@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * factor, mask=i < n)
"""


class Driver:
    """What was loaded and launched."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.launches: list[dict[str, Any]] = []

    def cuModuleLoadData(self, module: Any, data: bytes) -> int:
        self.loaded.append(data)
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        self.name = name
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        return 0

    def cuLaunchKernelEx(self, config: Any, handle: Any, parameters: Any, extra: Any) -> int:
        made = config._obj
        read = [ctypes.cast(p, ctypes.POINTER(ctypes.c_uint64)).contents.value for p in parameters]
        launch = {"grid": tuple(made.grid), "block": tuple(made.block), "stream": made.stream, "parameters": read}
        self.launches.append(launch)
        return 0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    (folder / "gpu_package").mkdir()
    (folder / "gpu_package" / "__init__.py").write_text("")
    (folder / "gpu_package" / "kernels.py").write_text(KERNELS)
    project.build(folder, project.Settings(("gpu_package.kernels",), ("x86-64",), ("sm_80", "sm_90")))
    return folder


@pytest.fixture
def driver(built: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU of compute capability 9.0 that every array is on."""
    made = Driver()
    monkeypatch.setattr(gpu, "driver", lambda: made)
    monkeypatch.setattr(cuda, "driver", lambda: made)
    monkeypatch.setattr(cuda, "_context", lambda device: None)
    monkeypatch.setattr(cuda, "capability", lambda device: 90)
    monkeypatch.setattr(gpu, "device", lambda values: 0)
    monkeypatch.setattr(gpu, "look", lambda device: view_at)
    monkeypatch.setattr(gpu, "current_stream", lambda values, device: 77)
    with shipping.importable(built, "gpu_package"):
        yield made


def aligned(count: int, skip: int = 0) -> Any:
    memory = np.zeros(count + 8, np.float32)
    start = (-memory.ctypes.data % 16) // 4 + skip
    return memory[start : start + count]


@pytest.mark.parametrize("skip", [0, 1])
def test_what_the_driver_gets(driver: Driver, built: Path, skip: int) -> None:
    x, out = aligned(300, skip), aligned(300, skip)
    kernel = omnikernel.shipped("gpu_package.kernels").scale
    for _ in range(2):
        kernel[lambda meta: (omnikernel.cdiv(300, meta["BLOCK"]),)](x, out, 300, 1.5, BLOCK=128, num_warps=2)
    assert len(driver.launches) == 2 and len(driver.loaded) == 1 and driver.name == b"scale"
    launch = driver.launches[-1]
    assert (launch["grid"], launch["block"], launch["stream"]) == ((3, 1, 1), (64, 1, 1), 77)
    bits = struct.unpack("<I", struct.pack("<f", 1.5))[0]
    assert launch["parameters"][:4] == [x.ctypes.data, out.ctypes.data, 300, bits]
    assert set(launch["parameters"][4:]) <= {0}
    form = kernel._forms[1 if skip else 0]  # the first assumes more
    cubin = (built / "gpu_package" / "_omnikernel" / form.about["gpu"]["sm_90"]["cubin"]).read_bytes()
    assert driver.loaded == [cubin + b"\0"]
    assert [":16" in form.text for form in kernel._forms] == [True, False]


def test_an_empty_grid_launches_nothing(driver: Driver) -> None:
    omnikernel.shipped("gpu_package.kernels").scale[(0,)](aligned(8), aligned(8), 0, 1.5, BLOCK=128)
    assert not driver.launches


def test_ptx_for_a_newer_gpu(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "capability", lambda device: 100)
    omnikernel.shipped("gpu_package.kernels").scale[(1,)](aligned(8), aligned(8), 8, 1.5, BLOCK=128)
    assert b".target sm_80" in driver.loaded[0] and driver.loaded[0].endswith(b"\0")


def test_a_gpu_for_which_nothing_was_built(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "capability", lambda device: 75)
    monkeypatch.setattr(handles, "_triton", lambda: False)
    with pytest.raises(
        ShippedError, match=r"nothing was built for a GPU of compute capability 7\.5\. Shipped: .* for .*sm_80, sm_90"
    ):
        omnikernel.shipped("gpu_package.kernels").scale[(1,)](aligned(8), aligned(8), 8, 1.5, BLOCK=128)


def test_options_that_were_not_built(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "_triton", lambda: False)
    with pytest.raises(ShippedError, match=r"launch: option num_warps=8: it was built with 2\. Shipped"):
        omnikernel.shipped("gpu_package.kernels").scale[(1,)](aligned(8), aligned(8), 8, 1.5, BLOCK=128, num_warps=8)


def test_an_altered_cubin_is_refused(driver: Driver, built: Path) -> None:
    path = built / "gpu_package" / "_omnikernel" / "sm_90" / "kernels.scale.0.cubin"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    try:
        with pytest.raises(CorruptArtefact, match=r"sm_90/kernels\.scale\.\d\.cubin was altered after it was built"):
            for skip in (0, 1):
                omnikernel.shipped("gpu_package.kernels").scale[(1,)](
                    aligned(8, skip), aligned(8, skip), 8, 1.5, BLOCK=128
                )
    finally:
        path.write_bytes(data)
