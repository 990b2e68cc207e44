"""C++ and CUDA C++ modules of a package, built for every level and architecture when the package is built.

In: the modules that the package loads by `omnikernel.load`. Out: a shared object a level (the C++ runtime linked in, no Python, no
torch), and for CUDA source cubins an architecture. `libraries.py` finds them again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..cpp import build, gpu_source, loading
from ..cpp.module import Module
from . import levels
from .gpu import capability_of
from .libraries import key, package_root, relative
from .triton_cpu import compiler_for

_STATIC = ("-static-libstdc++", "-static-libgcc", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-s")
_BITS = (32, 64)  # of an index on a GPU


@contextmanager
def recorded() -> Iterator[list[Module]]:
    """The modules that are loaded from files meanwhile."""
    found: list[Module] = []
    before, loading.LISTENERS[:] = list(loading.LISTENERS), [*loading.LISTENERS, found.append]
    try:
        yield found
    finally:
        loading.LISTENERS[:] = before


def build_all(
    modules: Sequence[Module], cpu: Sequence[str], architectures: Sequence[str], folder: Path
) -> list[dict[str, Any]]:
    """Build the modules of a package.

    Args:
        modules: what the package loaded.
        cpu: processor levels.
        architectures: of GPUs, for CUDA source.
        folder: where the files go.

    Returns:
        The manifest's entries.

    Raises:
        BuildError: no compiler, or it failed.
    """
    found: list[dict[str, Any]] = []
    for module in modules:
        base, name = package_root(module), module.settings.name
        about: dict[str, Any] = {"name": name, "key": key(module, base), "cpu": {}, "gpu": {}}
        same = [one for one in found if one["name"] == name]
        if any(one["key"] == about["key"] for one in same):  # loaded in two places
            continue
        stem = f"{name}.{len(same)}" if same else name
        for level in levels.known(cpu):
            file = f"{level.name}/{stem}.cpp.so"
            _place(build.build(_for_level(module.recipe(), level, base), compiler_for(level)), folder / file)
            about["cpu"][level.name] = file
        for architecture in architectures:
            about["gpu"][architecture] = _cubins(module, architecture, folder, stem)
        found.append(about)
    return found


def _place(built: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(built, path)


def _for_level(recipe: build.Recipe, level: levels.Level, root: Path) -> build.Recipe:
    """The recipe for a level, with everything linked in that a machine without a compiler may lack."""
    names = {file: relative(Path(file), root) for file in recipe.sources}
    sources = {names[file]: text.replace(f'"{file}"', f'"{names[file]}"') for file, text in recipe.sources.items()}
    march = {"aarch64": "armv8-a"}.get(level.name, level.name)
    return replace(recipe, sources=sources, originals={}, march=march, ldflags=(*recipe.ldflags, *_STATIC))


def _cubins(module: Module, architecture: str, folder: Path, stem: str) -> dict[str, Any]:
    """The cubins of the CUDA sources of a module, by source and index width."""
    number = capability_of(architecture)
    files: dict[str, str] = {}
    for index, source in enumerate(module.gpu_sources()):
        for bits in _BITS:
            file = f"{architecture}/{stem}.{index}.{bits}.cubin"
            _place(gpu_source.cubin(replace(source.recipe, bits=bits, capability=number)), folder / file)
            files[f"{index}.{bits}"] = file
    return {"arch": number, "specific": False, "files": files}
