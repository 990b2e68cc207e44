"""What a kernel's source refers to, kept on disk: Triton's key of a kernel without parsing its source once more.

Triton keys a kernel by its source, and by the values and functions that the source names. To find the names it parses
the source and walks the tree, in every process anew: most of a first launch of a kernel that is in the cache. Which names
the walk asks for, and in which order, depends on the source alone; what they mean does not. So the names are kept, by
the source and by the code that walks, and each process looks up their meaning by Triton's own methods. The key is the
same as Triton's, and a changed function, constant or source changes it as ever.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import kept

# The walk as it is understood here: a release that visits other nodes in a way of its own is left alone.
_KNOWN = frozenset(
    ("Name", "Tuple", "Attribute", "FunctionDef", "arguments", "Assign", "AnnAssign", "For")  # and visitAssnTarget
)
_LOAD = ast.Load()
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A global name with the attributes taken of it, e.g. ("tl", "load"); `default`: in a parameter's default value."""

    default: bool
    names: tuple[str, ...]


class _Thread(threading.local):
    launches = 0  # of ours, that this thread is in
    finder: Any = None  # made for a key, and waiting for the tree of its source


_thread = _Thread()


@contextmanager
def remembered() -> Iterator[None]:
    """Names are read from disk, and written there, for the keys that this thread asks for meanwhile."""
    _thread.launches += 1
    try:
        yield
    finally:
        _thread.launches -= 1


def install(jit: Any, wrap: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    """Adapt `triton.runtime.jit`."""
    stock = jit.DependenciesFinder
    visits = {name.removeprefix("visit_") for name in vars(stock) if name.startswith("visit_")}
    if visits == _KNOWN and hasattr(stock, "visitAssnTarget") and not hasattr(stock, "visit__Tree"):
        jit.DependenciesFinder = _finder(stock)
        wrap(jit.JITCallable, "parse", _parse)


def _parse(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For the key being made: the names that are known, or a tree whose names will be."""

    def parse(self: Any) -> Any:
        finder, _thread.finder = _thread.finder, None
        if finder is None or finder.source is not self._src:
            return stock(self)
        path = kept.path("names", finder.file)
        found = kept.read(path)
        return _Tree(stock(self), path) if found is None else _Names(_references(found))

    return parse


@dataclass(frozen=True, slots=True)
class _Tree:
    """A parsed source, whose names are written to a file once they are found."""

    tree: ast.AST
    path: str


@dataclass(frozen=True, slots=True)
class _Names:
    """What stands for a source whose names are known."""

    references: tuple[Reference, ...]


def _finder(stock: Any) -> Any:
    """Triton's `DependenciesFinder`, that also writes down what it looks up, and that can do without a tree."""
    walk = _digest_of(stock)

    class DependenciesFinder(stock):  # type: ignore[misc]
        def __init__(self, name: str, globals: Any, nonlocals: Any, src: str) -> None:
            super().__init__(name=name, globals=globals, nonlocals=nonlocals, src=src)
            self.source = src
            self._noted: list[Reference] | None = None
            if _thread.launches:
                _thread.finder = self

        @property
        def file(self) -> str:
            return hashlib.sha256(f"{walk}\n{self.source}".encode()).hexdigest()

        def visit__Names(self, known: _Names) -> None:
            """Look the names up by the methods that would have found them."""
            self.local_names: set[str] = set()
            without_effect: set[Reference] = set()
            for reference in known.references:
                if reference in without_effect:
                    continue
                before = self.hasher.digest()
                node: ast.expr = ast.Name(reference.names[0], _LOAD)
                for attribute in reference.names[1:]:
                    node = ast.Attribute(node, attribute, _LOAD)
                self.visiting_arg_default_value = reference.default
                self.visit(node)
                if self.hasher.digest() == before:  # a function is hashed as often as it is named
                    without_effect.add(reference)
            self.visiting_arg_default_value = False

        def visit__Tree(self, parsed: _Tree) -> None:
            self._noted = []
            self.visit(parsed.tree)
            if self._noted is not None:
                kept.write(parsed.path, _text(self._noted))

        def visit_Name(self, node: ast.Name) -> Any:
            self._note(node)
            return super().visit_Name(node)

        def visit_Attribute(self, node: ast.Attribute) -> Any:
            noted = self._noted
            if noted is None:
                return super().visit_Attribute(node)
            if not self._note(node):  # of something that is no name, whose own names count
                return super().visit_Attribute(node)
            self._noted = None
            try:
                return super().visit_Attribute(node)
            finally:
                self._noted = noted

        def visitAssnTarget(self, node: ast.expr) -> None:
            if any(isinstance(part, ast.Attribute) for part in ast.walk(node)):
                self._noted = None  # what it adds to the local names may depend on a value
            super().visitAssnTarget(node)

        def _note(self, node: ast.expr) -> bool:
            """Write down a name or a chain of attributes of one; False for anything else."""
            names: list[str] = []
            while isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
            if not isinstance(node, ast.Name):
                if isinstance(node, ast.Tuple):
                    self._noted = None  # an attribute of a list
                return False
            if self._noted is not None and not isinstance(node.ctx, ast.Store) and node.id not in self.local_names:
                self._noted.append(Reference(self.visiting_arg_default_value, (node.id, *reversed(names))))
            return True

    return DependenciesFinder


def _digest_of(stock: Any) -> str:
    """What a walk depends on besides the source: Python's grammar, Triton's code for it, and how names are kept here."""
    codes = [function.__code__ for function in vars(stock).values() if hasattr(function, "__code__")]
    walk = [(code.co_name, code.co_code, code.co_names, code.co_varnames) for code in codes]
    return hashlib.sha256(repr((_FORMAT, sys.version, walk)).encode()).hexdigest()


def _text(references: list[Reference]) -> str:
    return "\n".join(("=" if found.default else " ") + ".".join(found.names) for found in references)


def _references(text: str) -> tuple[Reference, ...]:
    lines = text.split("\n") if text else []
    return tuple(Reference(line[0] == "=", tuple(line[1:].split("."))) for line in lines)
