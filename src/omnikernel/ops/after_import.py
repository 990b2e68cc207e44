"""Call something once a module has been imported, by whomever and whenever.

An operator is declared without importing torch, yet `torch.ops` must hold it as soon as torch is there: a compiler that
traces the first call cannot register anything.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Then(Loader):
    """Loads a module as its own loader would, then makes the calls of the finder, whose wait is over."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for call in self._finder.calls:
            call()


class _Finder(MetaPathFinder):
    """Waits until one module is imported. Whoever only looks for the module does not end the wait."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[Callable[[], None]] = []
        self._asking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self)
        return spec


def when_loaded(name: str, call: Callable[[], None]) -> None:
    """Call now where the module is loaded, else right after it has been."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        call()
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.name == name:
            finder.calls.append(call)
            return
    waiting = _Finder(name)
    waiting.calls.append(call)
    sys.meta_path.insert(0, waiting)
