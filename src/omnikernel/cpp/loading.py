"""`omnikernel.load_inline` and `omnikernel.load`: from text or files to a `Module`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import config
from .module import Explicit, Module, Prebuilt, Settings, Shapes, Source

Text = str | Sequence[str] | None
LISTENERS: list[Callable[[Module], object]] = []  # told of every module that is loaded from files: what builds packages


def _texts(given: Text) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def load_inline(
    name: str,
    *,
    cuda_source: Text = None,
    cpp_source: Text = None,
    functions: Explicit = None,
    extra_cflags: Sequence[str] = (),
    extra_cuda_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    include_paths: Sequence[str | os.PathLike[str]] = (),
    macros: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    checked: bool | None = None,
    stack_bytes: int | None = None,
) -> Module:
    """Make a module from C++ or CUDA C++ text.

    Args:
        name: the module's name, in errors and of the files in the cache.
        cuda_source: CUDA C++; its `__global__` functions become kernels, `mod.kernel[grid, block](...)`.
        cpp_source: C++; its functions that are neither static, inline nor templates become functions, `mod.f(...)`.
        functions: which functions to take, or their signatures too, e.g. `{"f": "(ok::View<float, 1> x, int n)"}`; for
            templates `{"f32": "f<float>(ok::View<float, 1> x)"}`.
        extra_cflags: further flags of the host's compiler.
        extra_cuda_cflags: further flags of NVRTC.
        extra_ldflags: further flags of the linker, e.g. `["-lm"]`.
        include_paths: folders of headers.
        macros: names to define, with their values.
        shapes: sizes that the launch checks, by function and parameter: `{"f": {"a": "n", "b": "n", "c": "n, 4"}}`. A name
            stands for one size, whatever it is; sizes that must agree have the same name.
        checked: every index of a view is checked, divergence is reported; None: as `OMNIKERNEL_CHECK` says.
        stack_bytes: on the CPU, the stack of a thread of a kernel that has barriers; 64 KiB unless given.

    Raises:
        SignatureError: a signature that cannot be read, with its line.
        UnsupportedCuda: CUDA that is not emulated on the CPU, with its line.
        BuildError: no compiler, an error in the source, no space.
    """
    sources = [
        *(Source(_file(name, "cpp", i), text, False) for i, text in enumerate(_texts(cpp_source))),
        *(Source(_file(name, "cu", i), text, True) for i, text in enumerate(_texts(cuda_source))),
    ]
    if not sources:
        raise ValueError(f"module {name!r}: give cpp_source or cuda_source")
    return _module(
        name,
        sources,
        functions,
        extra_cflags,
        extra_cuda_cflags,
        extra_ldflags,
        include_paths,
        macros,
        shapes,
        checked,
        stack_bytes,
    )


def load(
    name: str,
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    functions: Explicit = None,
    extra_cflags: Sequence[str] = (),
    extra_cuda_cflags: Sequence[str] = (),
    extra_ldflags: Sequence[str] = (),
    include_paths: Sequence[str | os.PathLike[str]] = (),
    macros: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    checked: bool | None = None,
    stack_bytes: int | None = None,
) -> Module:
    """Make a module from files: `.cu` is CUDA C++, anything else C++. Their folders are searched for headers.

    Args and errors are those of `load_inline`; a missing file is a FileNotFoundError.
    """
    given = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    paths = [Path(source).resolve() for source in given]
    found = [Source(str(path), path.read_text(), path.suffix in (".cu", ".cuh")) for path in paths]
    folders = [*include_paths, *dict.fromkeys(path.parent for path in paths)]
    module = _module(
        name,
        found,
        functions,
        extra_cflags,
        extra_cuda_cflags,
        extra_ldflags,
        folders,
        macros,
        shapes,
        checked,
        stack_bytes,
        _shipped,
    )
    for listener in LISTENERS:
        listener(module)
    return module


def _shipped(module: Module) -> Prebuilt | None:
    """What the package that holds the sources has prebuilt of them."""
    if config.shipped() == config.SHIPPED_NONE:
        return None
    from ..ship.package import enclosing

    if not any(enclosing(Path(module.sources[0].file))):
        return None
    from ..ship.libraries import prebuilt

    return prebuilt(module)


def _file(name: str, suffix: str, index: int) -> str:
    return f"{name}.{suffix}" if index == 0 else f"{name}_{index}.{suffix}"


def _module(
    name: str,
    sources: Sequence[Source],
    explicit: Explicit,
    cflags: Sequence[str],
    cuda_flags: Sequence[str],
    ldflags: Sequence[str],
    includes: Sequence[str | os.PathLike[str]],
    macros: Mapping[str, Any] | None,
    shapes: Shapes | None,
    checked: bool | None,
    stack_bytes: int | None,
    find: Callable[[Module], Prebuilt | None] = lambda module: None,
) -> Module:
    if not name.isidentifier():
        raise ValueError(f"a module's name is an identifier, got {name!r}")
    defined = {key: "" if value is None else str(value) for key, value in (macros or {}).items()}
    if stack_bytes is not None:
        if stack_bytes < 16384 or stack_bytes % 4096:
            raise ValueError(f"module {name!r}: stack_bytes is a multiple of 4096 from 16384, got {stack_bytes}")
        defined["OK_STACK_BYTES"] = str(stack_bytes)
    settings = Settings(
        name,
        tuple(cflags),
        tuple(cuda_flags),
        tuple(ldflags),
        tuple(str(Path(include).resolve()) for include in includes),
        defined,
        config.check() if checked is None else checked,
        dict(shapes or {}),
    )
    return Module(sources, settings, explicit, find)
