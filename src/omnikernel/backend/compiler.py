"""The module that Triton asks for the compiler of backend `cpu`.

Triton wants exactly one concrete `BaseBackend` subclass among the attributes of this module, and any exception here
would break `import triton` for everybody. So a failure to load ours is reported once and answered with a class that
supports no target.
"""

from __future__ import annotations

from triton.backends.compiler import BaseBackend

from .availability import report


def _load() -> type[BaseBackend]:
    try:
        from .cpu_compiler import CPUBackend

        return CPUBackend
    except Exception as error:
        report(error)

    class Unavailable(BaseBackend):  # type: ignore[misc]
        """Stands in for the backend that could not be loaded."""

        @staticmethod
        def supports_target(target: object) -> bool:
            return False

        hash = parse_options = add_stages = load_dialects = get_module_map = None

    return Unavailable


CPUBackend = _load()
