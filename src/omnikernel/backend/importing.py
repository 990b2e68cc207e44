"""Run something of ours right after a module of Triton's has been loaded.

Our backend is imported in the middle of `import triton`, when the launch machinery is half loaded. `triton.testing`
is the last module of the package that needs all of it; the interpreter is loaded on demand, perhaps much later.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from .availability import report


def _adapt_launches(module: ModuleType) -> None:
    from .hooks import install

    install()


def _adapt_interpreter(module: ModuleType) -> None:
    from .interpret import install

    install(module)


def _adapt_ahead_of_time(module: ModuleType) -> None:
    from . import aoti

    aoti.install(module)


def _adapt_grids(module: ModuleType) -> None:
    from . import aoti

    aoti.install_grids(module)


_AFTER: dict[str, Callable[[ModuleType], None]] = {
    "triton.testing": _adapt_launches,
    "triton.runtime.interpreter": _adapt_interpreter,
    "torch._inductor.runtime.triton_heuristics": _adapt_ahead_of_time,
    "torch._inductor.codegen.cpp_wrapper_cpu": _adapt_grids,
}


class _Then(Loader):
    """Loads a module as its own loader would, then calls a function with it. A failure there is only reported."""

    def __init__(self, loader: Loader, then: Callable[[ModuleType], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._then(module)
        except Exception as error:
            report(error)


class _Finder(MetaPathFinder):
    """Finds the modules to adapt through the other finders."""

    def __init__(self) -> None:
        self._waiting = dict(_AFTER)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        then = self._waiting.pop(name, None)
        if then is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Then(spec.loader, then)
        return spec


def arrange() -> None:
    """Adapt Triton's launches and its interpreter as soon as they can be."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name, adapt in _AFTER.items():
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            adapt(module)
