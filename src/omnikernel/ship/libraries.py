"""C++ and CUDA C++ modules of an installed package: what `omnikernel.load` finds instead of compiling.

In: a module that is being loaded from files. Out: its library for this processor and its cubins, where they lie in the package
around the files. What was built is known by a key of what is loaded: sources, signatures, flags, macros, headers of the package.
Where any of them differs the module is compiled instead, with a warning.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cpp.module import Module, Prebuilt
from ..errors import ShippedWarning
from . import gpu, levels
from .package import FOLDER, Shipped, Unfit, enclosing, read

_HEADERS = (".h", ".hpp", ".hh", ".cuh", ".inl", ".inc")


def key(module: Module, root: Path) -> str:
    """What a module is made of, whatever machine it is on: sources, flags, macros, headers inside the package."""
    settings = module.settings
    parts = {
        "name": settings.name,
        "sources": [[relative(Path(source.file), root), source.text] for source in module.sources],
        "functions": sorted(str(function) for found in module.functions.values() for function in found),
        "flags": [settings.flags, settings.cuda_flags, settings.ldflags],
        "macros": sorted((settings.macros or {}).items()),
        "checked": settings.checked,
        "shapes": {name: dict(sizes) for name, sizes in settings.shapes.items()},
        "headers": _headers(settings.includes, root),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def relative(path: Path, root: Path) -> str:
    """The path of a file of a package inside it; of any other file its name."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _headers(includes: Sequence[str], root: Path) -> dict[str, str]:
    found = {}
    for folder in map(Path, includes):
        if folder.is_relative_to(root):
            for path in sorted(folder.rglob("*")):
                if path.suffix in _HEADERS and FOLDER not in path.parts:
                    found[relative(path, root)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def package_root(module: Module) -> Path:
    """The folder that the package of a module's first source lies in."""
    folder = Path(module.sources[0].file).parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def prebuilt(module: Module) -> Prebuilt | None:
    """What was built of a module that is being loaded; None where its files lie in no package with prebuilt files.

    Raises:
        CorruptArtefact: the files were altered.
    """
    first = Path(module.sources[0].file)
    for folder in enclosing(first) if first.is_absolute() else ():
        try:
            package = read(folder)
        except Unfit as error:
            _warn(f"{error}. Module {module.settings.name!r} is compiled instead")
            return None
        named = [one for one in package.content["libraries"] if one["name"] == module.settings.name]
        if named:
            return _found(module, package, named)
    return None


def _found(module: Module, package: Shipped, named: Sequence[Mapping[str, Any]]) -> Prebuilt | None:
    own = key(module, package_root(module))
    entry = next((one for one in named if one["key"] == own), None)
    what = f"module {module.settings.name!r} of package {package.package!r}"
    if entry is None:
        _warn(f"{what}: its sources or options are not those that were built; it is compiled instead")
        return None
    level = next((name for name in levels.usable() if name in entry["cpu"]), None)
    if level is None:
        _warn(f"{what}: built for {', '.join(entry['cpu'])}, not for this processor; it is compiled instead")

    def cubin(capability: int, source: int, bits: int) -> bytes | None:
        code = gpu.best_cubin(entry["gpu"], capability)
        return package.read(code["files"][f"{source}.{bits}"]) if code else None

    return Prebuilt(package.path(entry["cpu"][level]) if level is not None else None, cubin)


def _warn(text: str) -> None:
    warnings.warn(text, ShippedWarning, stacklevel=6)
