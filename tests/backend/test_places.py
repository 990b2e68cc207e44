"""A GPU's driver beside ours, simulated: launches go by the arrays' device, per thread, and kernels stay apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from omnikernel.backend.places import place_of, place_of_all

Run = Callable[..., str]

# A second backend that says it is active and notes its launches. Its device has number 0.
OTHER = """
import types
import triton, triton.language as tl
import triton.backends as registry
from triton.backends.compiler import GPUTarget
ours = registry.backends["cpu"]
ON_GPU = []

class OtherBackend(ours.compiler):
    @staticmethod
    def supports_target(target):
        return target.backend == "fake"
    def hash(self):
        return "fake"

class OtherDriver(ours.driver):
    def __init__(self):
        super().__init__()
        self.utils = types.SimpleNamespace(
            load_binary=lambda *args: (b"m", b"f", 1, 0, 1 << 30),
            get_device_properties=lambda device: {"max_shared_mem": 1 << 30},
            unload_module=lambda module: ON_GPU.append(("unload", module)),
        )
        class OtherLauncher:
            def __init__(self, src, metadata):
                pass
            def __call__(self, *args):
                ON_GPU.append(args[9:])
        self.launcher_cls = OtherLauncher
    @staticmethod
    def is_active():
        return True
    def get_current_device(self):
        return 0
    def get_current_target(self):
        return GPUTarget("fake", "", 32)
    def get_benchmarker(self):
        return lambda call, **kwargs: (call(), [1.0, 1.0, 1.0])[1]

import omnikernel.backend.places as places
stock_is_ours = places.is_ours
places.is_ours = lambda driver: stock_is_ours(driver) and not isinstance(driver, OtherDriver)
for name in ("nvidia", "amd"):
    del registry.backends[name]
registry.backends["fake"] = registry.Backend(OtherBackend, OtherDriver)

class Device:
    type = "fake"

class OnGpu:
    device, dtype = Device(), "float32"
    def data_ptr(self):
        return 0

@triton.jit
def copy(p, r, N: tl.constexpr):
    tl.store(r + tl.arange(0, N), tl.load(p + tl.arange(0, N)))

host, device = np.zeros(8, np.float32), OnGpu()
"""


def test_launches_go_by_the_arrays(python: Run) -> None:
    out = python(
        OTHER
        + """
print(ours.driver.is_active())
for array in (host, device, host, device):
    copy[(1,)](array, array, N=8)
    print(len(CALLS), len(ON_GPU))
copy[(1,)](p=host, r=host, N=8)
print(len(CALLS), len(ON_GPU), type(triton.runtime.driver.active).__name__)
""",
        recorder=True,
    )
    assert out.splitlines() == ["False", "1 0", "1 1", "2 1", "2 2", "3 2 OtherDriver"]


def test_it_comes_back_after_the_cpu_was_made_active(python: Run) -> None:
    out = python(
        OTHER
        + """
triton.runtime.driver.active
triton.runtime.driver.set_active(ours.driver())
copy[(1,)](device, device, N=8)
copy[(1,)](host, host, N=8)
print(len(CALLS), len(ON_GPU))
""",
        recorder=True,
    )
    assert out.split() == ["1", "1"]


def test_compiled_kernels_keep_their_driver(python: Run) -> None:
    out = python(
        OTHER
        + """
import gc
kernel = copy.warmup(triton.MockTensor(np.dtype("float32")), triton.MockTensor(np.dtype("float32")), N=8, grid=(1,))
print(kernel.metadata.target.backend)
on_host = copy[(1,)](host, host, N=8)
on_host[(2,)](host, host, 8)
print(on_host.metadata.target.backend, len(CALLS), len(ON_GPU))
del on_host
copy.device_caches.clear()
gc.collect()
print(len(ON_GPU))
""",
        recorder=True,
    )
    assert out.splitlines() == ["fake", "cpu 2 0", "0"]


def test_tuning_is_per_device(python: Run) -> None:
    out = python(
        OTHER
        + """
tuned = triton.autotune(configs=[triton.Config({"N": 8}), triton.Config({"N": 16})], key=[])(copy)
tuned[(1,)](device, device)
on_gpu = len(ON_GPU)
tuned[(1,)](host, host)
print(on_gpu, len(ON_GPU), len(CALLS) > 3)
on_host = len(CALLS)
tuned[(1,)](host, host)
tuned[(1,)](device, device)
print(len(ON_GPU) - on_gpu, len(CALLS) - on_host)
""",
        recorder=True,
    )
    assert out.splitlines() == ["3 3 True", "1 1"]


def test_threads_do_not_disturb_each_other(python: Run) -> None:
    out = python(
        OTHER
        + """
import threading
copy[(1,)](host, host, N=8), copy[(1,)](device, device, N=8)
def work(array):
    for _ in range(200):
        copy[(1,)](array, array, N=8)
threads = [threading.Thread(target=work, args=(array,)) for array in (host, device)]
for t in threads: t.start()
for t in threads: t.join()
print(len(CALLS), len(ON_GPU), all(args[0] is host for _, _, args in CALLS), all(args[0] is device for args in ON_GPU))
""",
        recorder=True,
    )
    assert out.split() == ["201", "201", "True", "True"]


def test_the_environment_can_choose_the_cpu(python: Run) -> None:
    out = python(
        OTHER
        + """
from omnikernel.backend.availability import selected
print(selected(), ours.driver.is_active(), type(triton.runtime.driver.active).__name__ if selected() else "")
""",
        env={"TRITON_DEFAULT_BACKEND": "cpu"},
        recorder=True,
    )
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7):
        assert out.split() == ["False"]
    else:
        assert out.split() == ["cpu", "True", "CPUDriver"]


class _Fake:
    """An array of a library, by what it has."""

    dtype = "float32"

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class _Device:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (np.zeros(3), "cpu"),
        (np.zeros(()), "cpu"),
        (np.float32(1), None),
        (np.int64(1), None),
        (1, None),
        (None, None),
        ("text", None),
        (bytearray(4), "cpu"),
        ((1, np.zeros(3)), "cpu"),
        (_Fake(device=_Device(type="cuda")), "gpu"),
        (_Fake(device=_Device(type="cpu")), "cpu"),
        (_Fake(device=_Device(type="meta")), None),
        (_Fake(device=_Device(platform="cpu")), "cpu"),
        (_Fake(device=_Device(platform="gpu")), "gpu"),
        (_Fake(__cuda_array_interface__={}), "gpu"),
        (_Fake(__dlpack_device__=lambda: (1, 0)), "cpu"),
        (_Fake(__dlpack_device__=lambda: (2, 0)), "gpu"),
    ],
)
def test_place_of(value: object, place: str | None) -> None:
    assert place_of(value) == place


def test_a_gpu_array_among_others_decides() -> None:
    on_gpu = _Fake(device=_Device(type="cuda"))
    assert place_of_all([1, np.zeros(3), on_gpu]) == "gpu"
    assert place_of_all([1, np.zeros(3)]) == "cpu"
    assert place_of_all([1, 2.0]) is None
