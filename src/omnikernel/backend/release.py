"""Triton's key of its own installation, kept for as long as no file of it changes.

Triton hashes its sources and its library, hundreds of megabytes, once a process: most of the first launch there. The files
are known to be the same by what the file system says of each: device, number, size, and the times at which its content and
its entry last changed, of which a program can set the former alone.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from . import kept

_HASHED = ("compiler", "backends", "language", "_C")  # folders that Triton hashes files of
_SUFFIXES = (".py", ".so", ".pyd")


def install(cache: Any, wrap: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    """Adapt `triton.runtime.cache`."""
    if hasattr(cache, "triton_key"):
        wrap(cache, "triton_key", functools.partial(_remembered, cache))


def _remembered(cache: Any, stock: Callable[[], str]) -> Callable[[], str]:
    @functools.lru_cache  # Triton's is one, too
    def triton_key() -> str:
        path = kept.path("release", _state(cache))
        found = kept.read(path)
        if found is None:
            found = stock()
            kept.write(path, found)
        return found

    return triton_key


def _state(cache: Any) -> str:
    """A digest of the version, and of all that can be seen of the files without reading them."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(cache.__file__)))
    files = [cache.__file__, *(file for folder in _HASHED for file in _files(os.path.join(root, folder)))]
    seen = []
    for file in sorted(files):
        about = os.stat(file)
        seen.append((file, about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    return hashlib.sha256(repr((cache.__version__, seen)).encode()).hexdigest()


def _files(folder: str) -> Iterator[str]:
    for where, _, names in os.walk(folder, followlinks=True):
        yield from (os.path.join(where, name) for name in names if name.endswith(_SUFFIXES))
