"""The module that Triton asks for the driver of backend `cpu`.

The same rules as in `compiler.py`: one concrete `DriverBase` subclass to be seen, and no exception, whatever happens.
Importing it also arranges for Triton's own modules to be adapted once they are loaded: at this point of
`import triton` they are not.
"""

from __future__ import annotations

from triton.backends.driver import DriverBase

from .availability import report


def _load() -> type[DriverBase]:
    try:
        from .cpu_driver import CPUDriver
        from .importing import arrange

        arrange()
        return CPUDriver
    except Exception as error:
        report(error)

    class Unavailable(DriverBase):  # type: ignore[misc]
        """Stands in for the driver that could not be loaded; it is never active."""

        @classmethod
        def is_active(cls) -> bool:
            return False

        map_python_to_cpp_type = get_current_target = get_active_torch_device = get_benchmarker = None

    return Unavailable


CPUDriver = _load()
