"""Shared objects of prebuilt kernels in this process."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from .package import Shipped


@cache
def _library(path: Path) -> Any:
    return ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)


_VERIFIED: dict[tuple[Path, str], Path] = {}  # a registry: files whose content was looked at, before they were loaded


def address_of(package: Shipped, file: str, symbol: str) -> tuple[int, Any]:
    """The address of a symbol, and the library that holds it.

    Raises:
        CorruptArtefact: the file is not the one that was built.
        OSError: it cannot be loaded, or has no such symbol.
    """
    known = (package.folder, file)
    if known not in _VERIFIED:
        _VERIFIED[known] = package.path(file)
    library = _library(_VERIFIED[known])
    try:
        address = ctypes.cast(library[symbol], ctypes.c_void_p).value
    except AttributeError as error:
        raise OSError(f"it has no symbol {symbol!r}") from error
    return int(address or 0), library
