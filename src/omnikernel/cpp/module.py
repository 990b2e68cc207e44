"""Modules of functions and kernels made from C++ and CUDA C++.

In: sources. Out: a `Module`. What its attributes do: `mod.f(a, b, 2.0)` for a C++ function, `mod.k[grid, block](a, b)` for a CUDA
kernel. Arrays of the CPU run on the CPU; arrays of a GPU run there, for which the same source is compiled when first needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from ..runtime.arrays import ITEMSIZE
from . import arguments, build, gpu
from .emulation import Emulated, emulate
from .entries import translation_unit
from .library import Library
from .operators import Launchable, LinkedEntry, current_run, refuse_result
from .source import Function, SignatureError, functions

Explicit = Mapping[str, str] | Sequence[str] | None
Dims = int | Sequence[int]
Shapes = Mapping[str, Mapping[str, str]]
_MAX_THREADS = 1024
_MAX_SHARED = 232448  # what the largest GPU of today gives a block
_NS_PER_THREAD = 2.0  # a guess of a thread's time, so that tiny launches do not wake the pool


@dataclass(frozen=True, slots=True)
class Source:
    """One text with its name. `is_cuda`: CUDA C++."""

    file: str
    text: str
    is_cuda: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """How to build, for every device."""

    name: str
    flags: tuple[str, ...] = ()
    cuda_flags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    macros: Mapping[str, str] | None = None
    checked: bool = False
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prebuilt:
    """What was built of a module before: a library for this processor, and cubins by capability, source and index width."""

    library: Path | None
    cubin: Callable[[int, int, int], bytes | None]


class CFunction:
    """A C++ function: call it with arrays and numbers."""

    def __init__(self, library: Library, function: Function) -> None:
        self.signature = function
        self.__name__ = function.name
        self.__doc__ = str(function)
        self._library = library
        self._launchable = Launchable(function, self._run, self._link, lambda: library.path.parent.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; the result is a number or None.

        Raises:
            ArgumentTypeError, ArgumentValueError: an argument that does not fit the signature.
            KernelError: the function threw.
        """
        run = current_run()
        if run is not None:
            refuse_result(self.signature)
            return run.launch(self._launchable, None, args, kwargs)
        return self._run(None, args, kwargs)

    def _run(self, grid: None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        function = self.signature
        packed = arguments.pack(function, arguments.bind(function, args, kwargs))
        result = ctypes.c_uint64(0)
        self._library.run(function, [*packed.slots, ctypes.addressof(result)], (1, 1, 1), 0, 1.0)
        return _number(function, result.value)

    def _link(self, grid: None) -> LinkedEntry:
        refuse_result(self.signature)
        return LinkedEntry(self._library.entry(self.signature)[0], 64, 0.0, (1, 1, 1), (0,))

    def __repr__(self) -> str:
        return f"<{self.signature}>"


def _number(function: Function, bits: int) -> Any:
    if function.result is None:
        return None
    dtype = function.result.dtype
    if dtype[0] in "iu":
        width = 8 * ITEMSIZE[dtype]
        value = bits & (1 << width) - 1
        signed = dtype[0] == "i" and width > 1 and value >> (width - 1)
        return bool(value & 1) if dtype == "i1" else value - (1 << width) if signed else value
    return arguments.float_of(dtype, bits)


class Kernel:
    """A CUDA kernel: `kernel[grid, block](...)`, or `kernel[grid, block, shared_bytes](...)`."""

    def __init__(self, module: Module, function: Function) -> None:
        self.signature = function
        self.__name__ = function.name
        self.__doc__ = str(function)
        self._module = module
        self.arg_names = [parameter.name for parameter in function.parameters]
        self._launchable = Launchable(function, self._run, self._link, module._identity)

    def _run(self, shape: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        shape = shape if isinstance(shape, Launch) else self._shape(*shape)
        self._module._launch(self.signature, shape, args, kwargs)

    def _link(self, grid: Any) -> LinkedEntry:
        shape = grid if isinstance(grid, Launch) else self._shape(*grid)
        threads = prod(shape.block)
        address, scratch = self._module._library().entry(self.signature)
        slots = (*shape.block, shape.shared_bytes)
        return LinkedEntry(address, scratch * (threads + 1) + 64, threads * _NS_PER_THREAD, shape.grid, slots)

    def compile_for(self, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Any:
        """For `omnikernel.jax.triton_call(..., kernel=mod.kernel, grid=(grid, block))`."""
        return self._launchable.compile_for(args, kwargs, grid)

    def __getitem__(self, launch: Any) -> Callable[..., None]:
        parts = launch if isinstance(launch, tuple) else (launch,)
        if not 2 <= len(parts) <= 4:
            raise TypeError(
                f"kernel {self.__name__!r}: expected kernel[grid, block] or kernel[grid, block, shared_bytes, stream]"
            )
        return self.configure(*parts)

    def configure(
        self,
        grid: Dims,
        block: Dims,
        shared_bytes: int = 0,
        stream: Any = None,
        *,
        cluster: Dims | None = None,
        cooperative: bool = False,
    ) -> Callable[..., None]:
        """A launch with these dimensions, to be called with the arguments.

        Args:
            grid: blocks in x, y, z; a number means x alone.
            block: threads of a block in x, y, z, 1024 at most in all.
            shared_bytes: dynamic shared memory of a block.
            stream: on a GPU, the stream to use; None: the current one of the arrays' library.
            cluster: on a GPU, blocks of a cluster in x, y, z.
            cooperative: on a GPU, a cooperative launch.

        Raises:
            ValueError: dimensions that no launch has.
        """
        given = (grid, block, shared_bytes, stream, cluster, cooperative)
        # While an operator's function is traced the numbers may be symbols: looked at where they are numbers.
        shape = self._shape(*given) if current_run() is None else given

        def launch(*args: Any, **kwargs: Any) -> None:
            run = current_run()
            if run is not None:
                run.launch(self._launchable, shape, args, kwargs)
            else:
                self._run(shape, args, kwargs)

        return launch

    def _shape(
        self,
        grid: Dims,
        block: Dims,
        shared_bytes: int = 0,
        stream: Any = None,
        cluster: Dims | None = None,
        cooperative: bool = False,
    ) -> Launch:
        where = f"kernel {self.__name__!r}"
        grid3 = _dims(grid, f"{where}: grid", (2**31 - 1, 65535, 65535), 0)
        block3 = _dims(block, f"{where}: block", (1024, 1024, 64), 1)
        if block3[0] * block3[1] * block3[2] > _MAX_THREADS:
            raise ValueError(f"{where}: a block has at most {_MAX_THREADS} threads, got {block3}")
        if not 0 <= shared_bytes <= _MAX_SHARED:
            raise ValueError(f"{where}: shared_bytes is from 0 to {_MAX_SHARED}, got {shared_bytes}")
        clusters = None if cluster is None else _dims(cluster, f"{where}: cluster", (16, 16, 16), 1)
        return Launch(grid3, block3, shared_bytes, stream, clusters, cooperative)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"kernel {self.__name__!r} needs a grid and a block: {self.__name__}[grid, block](...)")

    def __repr__(self) -> str:
        return f"<__global__ {self.signature}>"


@dataclass(frozen=True, slots=True)
class Launch:
    """The dimensions of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    stream: Any = None
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False


def _dims(value: Dims, what: str, most: tuple[int, int, int], least: int) -> tuple[int, int, int]:
    given = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"{what}: expected 1 to 3 numbers, got {value!r}")
    x, y, z = (*given, 1, 1)[:3]
    if any(v < least or v > m for v, m in zip((x, y, z), most, strict=True)):
        raise ValueError(f"{what}: expected {least} to {most} in x, y, z, got {(x, y, z)}")
    return x, y, z


class Module:
    """What `load_inline` makes: an attribute for each function and kernel."""

    def __init__(
        self,
        sources: Sequence[Source],
        settings: Settings,
        explicit: Explicit,
        find: Callable[[Module], Prebuilt | None] = lambda module: None,
    ) -> None:
        """Read the signatures, and build what is needed first.

        Args:
            sources: the texts.
            settings: how to build.
            explicit: signatures that are given, not read.
            find: looks for what was built before.
        """
        self._settings = settings
        self._sources = tuple(sources)
        self._functions = _with_sizes(_declared(sources, explicit), settings)
        everything = [f for found in self._functions.values() for f in found]
        if not everything:
            raise SignatureError(f"module {settings.name!r}: {_nothing(sources)}")
        self._cpu: Library | None = None
        self._prebuilt = find(self)
        self._gpu = {function.name: source for source in self.gpu_sources() for function in source.recipe.kernels}
        if not gpu.available() or any(not source.is_cuda for source in sources):
            self._library()
        else:  # errors of the source are to be seen now, not at the first launch
            for source in {id(source): source for source in self._gpu.values()}.values():
                source.compile(0)
        self._attributes: dict[str, Kernel | CFunction] = {
            f.name: Kernel(self, f) if f.is_kernel else CFunction(self._library(), f) for f in everything
        }

    @property
    def settings(self) -> Settings:
        """How it is built."""
        return self._settings

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it is built from."""
        return self._sources

    @property
    def functions(self) -> Mapping[str, Sequence[Function]]:
        """The functions and kernels of each source."""
        return self._functions

    def gpu_sources(self) -> list[gpu.GpuSource]:
        """The CUDA sources as they are compiled for GPUs."""
        cuda = [source for source in self._sources if source.is_cuda]
        found = [_gpu_source(source, self._settings, self._functions[source.file]) for source in cuda]
        if self._prebuilt is not None:
            for index, source in enumerate(found):
                source.prebuilt = partial(_cubin, self._prebuilt, index)
        return found

    def _library(self) -> Library:
        """The library for the CPU, built when first needed."""
        if self._cpu is None:
            ready = self._prebuilt.library if self._prebuilt is not None else None
            self._cpu = Library(build.build(self.recipe()) if ready is None else ready)
        return self._cpu

    def _identity(self) -> str:
        return self._library().path.parent.name

    def recipe(self) -> build.Recipe:
        """How the library for the CPU is built."""
        settings = self._settings
        units = {}
        for index, source in enumerate(self._sources):
            emulated: Emulated | None = emulate(source.text, source.file) if source.is_cuda else None
            text = emulated.text if emulated is not None else source.text
            found = self._functions[source.file]
            units[source.file] = translation_unit(text, source.file, found, emulated, index == 0, settings.checked)
        return build.Recipe(
            settings.name,
            units,
            {source.file: source.text for source in self._sources},
            settings.flags,
            settings.ldflags,
            settings.includes,
            settings.macros or {},
            any(source.is_cuda for source in self._sources),
            settings.checked,
        )

    def _launch(self, function: Function, launch: Launch, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        bound = arguments.bind(function, args, kwargs)
        device = next((found for found in map(gpu.device_of, bound) if found is not None), None)
        if device is not None:
            self._gpu[function.name].launch(function, launch, bound, device)
            return
        packed = arguments.pack(function, bound)
        if 0 in launch.grid:
            return
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        values = [*packed.slots, *launch.block, launch.shared_bytes]
        self._library().run(function, values, launch.grid, threads, threads * _NS_PER_THREAD)

    def __getattr__(self, name: str) -> Kernel | CFunction:
        attributes = self.__dict__.get("_attributes", {})
        if name in attributes:
            found: Kernel | CFunction = attributes[name]
            return found
        has = ", ".join(sorted(attributes))
        raise AttributeError(f"module {self.__dict__['_settings'].name!r} has no function {name!r}; it has {has}")

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._attributes])

    def __repr__(self) -> str:
        return f"<omnikernel module {self._settings.name!r}: {', '.join(sorted(self._attributes))}>"


def _cubin(prebuilt: Prebuilt, source: int, capability: int, bits: int) -> bytes | None:
    return prebuilt.cubin(capability, source, bits)


def _gpu_source(source: Source, settings: Settings, kernels: Sequence[Function]) -> gpu.GpuSource:
    own = {k: v for k, v in (settings.macros or {}).items() if k != "OK_STACK_BYTES"}
    flags, includes = settings.cuda_flags, settings.includes
    recipe = gpu.GpuRecipe(
        settings.name, source.file, source.text, tuple(kernels), 32, 0, flags, includes, own, settings.checked
    )
    return gpu.GpuSource(recipe)


def _declared(sources: Sequence[Source], explicit: Explicit) -> dict[str, list[Function]]:
    """The functions of each source; what is named explicitly belongs to the source that has it."""
    found: dict[str, list[Function]] = {}
    names: set[str] = set()
    for source in sources:
        wanted = explicit
        if isinstance(explicit, Mapping) and len(sources) > 1:
            wanted = {k: v for k, v in explicit.items() if (v.split("(")[0].split("<")[0].strip() or k) in source.text}
        found[source.file] = functions(source.text, source.file, source.is_cuda, wanted)
        for function in found[source.file]:
            if function.name in names:
                raise SignatureError(f"{source.file}:{function.line}: another source has a {function.name!r} too")
            names.add(function.name)
    missing = [name for name in explicit or () if name not in names]
    if missing:
        raise SignatureError(f"functions: the sources have no {', '.join(map(repr, missing))}")
    return found


def _with_sizes(declared: dict[str, list[Function]], settings: Settings) -> dict[str, list[Function]]:
    """The functions with the sizes that `shapes` asks for.

    Raises:
        ValueError: `shapes` names what is not there, or another number of sizes than the view has dimensions.
    """
    known = {function.name: function for found in declared.values() for function in found}
    for name, shapes in settings.shapes.items():
        if name not in known:
            raise ValueError(f"shapes: module {settings.name!r} has no function {name!r}")
        ranks = {p.name: p.type.rank for p in known[name].parameters if p.type.form == "view"}
        for parameter, text in shapes.items():
            if ranks.get(parameter) != len(text.split(",")):
                raise ValueError(
                    f"shapes: {name!r} has no view {parameter!r} with {len(text.split(','))} dimensions for {text!r}"
                )
    return {
        file: [
            replace(
                f,
                sizes=tuple(
                    (p, tuple(t.strip() for t in text.split(","))) for p, text in settings.shapes[f.name].items()
                ),
            )
            if f.name in settings.shapes
            else f
            for f in found
        ]
        for file, found in declared.items()
    }


def _nothing(sources: Sequence[Source]) -> str:
    if any(source.is_cuda for source in sources):
        return "the source has no __global__ kernel"
    return "the source has no function that Python may call: one that is neither static, inline nor a template"
