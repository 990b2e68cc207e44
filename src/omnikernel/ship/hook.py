"""The hook of setuptools: a project with `[tool.omnikernel]` in its pyproject.toml gets its kernels prebuilt in its wheel.

setuptools calls `finalize` for every project that is built in an environment with omnikernel, so it must cost nothing and
change nothing for the others. An editable installation stays plain: there the modules themselves are used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def finalize(distribution: Any) -> None:
    """Called by setuptools (`setuptools.finalize_distribution_options`), in the project's folder.

    Raises:
        ArgumentValueError: `[tool.omnikernel]` has what is not known.
    """
    pyproject = Path("pyproject.toml")
    try:
        if "tool.omnikernel" not in pyproject.read_text():
            return
    except OSError:
        return
    from .project import settings

    wanted = settings(pyproject)
    if wanted is None:
        return
    distribution.has_ext_modules = lambda: True  # its wheel is for one platform
    commands = distribution.cmdclass
    commands["build_py"] = _builds(distribution.get_command_class("build_py"), wanted)
    commands["bdist_wheel"] = _platform_wheel(distribution.get_command_class("bdist_wheel"), wanted)


def _builds(stock: Any, wanted: Any) -> Any:
    """The command that copies Python files, and then builds beside them."""

    class BuildPy(stock):  # type: ignore[misc]
        def run(self) -> None:
            super().run()
            if not getattr(self, "editable_mode", False):
                from .project import build

                build(Path(self.build_lib).resolve(), wanted)

    return BuildPy


def _platform_wheel(stock: Any, wanted: Any) -> Any:
    """The command that makes the wheel: for one platform, for any Python."""

    class BdistWheel(stock):  # type: ignore[misc]
        def get_tag(self) -> tuple[str, str, str]:
            from .wheel import platform_tag

            if getattr(self, "plat_name_supplied", False):
                return "py3", "none", str(super().get_tag()[2])
            built = Path(self.get_finalized_command("build").build_lib)
            return "py3", "none", platform_tag(wanted.cpu, built)

    return BdistWheel
