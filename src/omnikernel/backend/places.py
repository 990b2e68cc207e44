"""Where the arrays of a launch live, and which driver of Triton's therefore runs it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_PLAIN = (int, float, str, type(None))
_HOST_PLATFORMS = ("cpu", "CPU")


class _Chosen(threading.local):
    """The driver that a launch of this thread has chosen; Triton's own notion is one for the whole process."""

    driver: Any = None


_chosen = _Chosen()


def place_of(value: Any) -> str | None:
    """ "cpu" or "gpu" for an array (or a tuple, or descriptor of one), None for everything else.

    Arrays of other libraries are known by what they have: torch's `device.type`, NumPy's `device`, JAX's
    `device.platform`, `__cuda_array_interface__`, DLPack's device number.
    """
    if isinstance(value, _PLAIN) or _is_numpy_scalar(type(value)):
        return None
    if isinstance(value, tuple | list):
        return place_of_all(value)
    if type(value).__name__ == "TensorDescriptor":
        return place_of(value.base)
    device = getattr(value, "device", None)
    kind = device if isinstance(device, str) else getattr(device, "type", getattr(device, "platform", None))
    if isinstance(kind, str) and hasattr(value, "dtype"):
        return None if kind == "meta" else "cpu" if kind in _HOST_PLATFORMS else "gpu"
    if hasattr(value, "__cuda_array_interface__"):
        return "gpu"
    if hasattr(value, "__array_interface__") or isinstance(value, bytearray | memoryview):
        return "cpu"
    if hasattr(value, "__dlpack_device__"):
        return "cpu" if value.__dlpack_device__()[0] == 1 else "gpu"
    return None


def _is_numpy_scalar(kind: type) -> bool:
    """NumPy's scalars have a device and a dtype, as arrays do."""
    return any(base.__name__ == "generic" and base.__module__ == "numpy" for base in kind.__mro__)


def place_of_all(values: Iterable[Any]) -> str | None:
    """ "gpu" if any array is on a GPU, "cpu" if all are on the CPU, None without arrays."""
    found = None
    for value in values:
        place = place_of(value)
        if place == "gpu":
            return place
        found = found or place
    return found


def is_ours(driver: Any) -> bool:
    """The driver is that of backend `cpu`."""
    from .cpu_driver import CPUDriver

    return isinstance(driver, CPUDriver)


def driver_for(place: str | None) -> Any:
    """The driver that must replace the active one for arrays in `place`; None where the active one is right.

    Inductor makes the CPU's driver active for the whole process and leaves it so; hence both directions.
    """
    from triton.runtime.driver import driver

    if place is None:
        return None
    active = driver.active
    if place == "cpu":
        if is_ours(active):
            return None
        from .availability import usable
        from .cpu_driver import CPUDriver

        return CPUDriver() if usable() else None
    if is_ours(active) and not is_ours(driver.default):
        return driver.default
    return None


@contextmanager
def using(driver: Any) -> Iterator[None]:
    """Make a driver the active one for this thread; None changes nothing."""
    if driver is None:
        yield
        return
    before = _chosen.driver
    _chosen.driver = driver
    try:
        yield
    finally:
        _chosen.driver = before


def make_active_a_thread_matter(config: type[Any]) -> None:
    """Let `DriverConfig.active` answer with what this thread has chosen by `using`."""
    stock = config.__dict__["active"]

    def active(self: Any) -> Any:
        return _chosen.driver or stock.fget(self)

    config.active = property(active)
