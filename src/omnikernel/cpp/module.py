"""`omnikernel.load_inline` and `omnikernel.load`: modules of functions and kernels made from C++ and CUDA C++.

In: sources. Out: a `Module`. What its attributes do: `mod.f(a, b, 2.0)` for a C++ function, `mod.k[grid, block](a, b)` for a CUDA
kernel. Arrays of the CPU run on the CPU; arrays of a GPU run there, for which the same source is compiled when first needed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from .. import config
from ..errors import OmnikernelError
from ..runtime.arrays import ITEMSIZE
from ..runtime.pool import native, pool
from . import arguments, build, gpu
from .emulation import Emulated, emulate
from .entries import translation_unit
from .operators import Launchable, LinkedEntry, current_run, refuse_result
from .places import located
from .source import Function, SignatureError, functions

Text = str | Sequence[str] | None
Explicit = Mapping[str, str] | Sequence[str] | None
Dims = int | Sequence[int]
_MAX_THREADS = 1024
_MAX_SHARED = 232448  # what the largest GPU of today gives a block
_NS_PER_THREAD = 2.0  # a guess of a thread's time, so that tiny launches do not wake the pool


class KernelError(OmnikernelError):
    """A kernel or a function reported a mistake while it ran: an index out of bounds, a failed assert, a divergence."""


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


class _Report(ctypes.Structure):
    """Where a launch leaves the text of its first error; ok::detail::Report in the header."""

    _fields_ = (("program", ctypes.c_int64), ("lock", ctypes.c_char), ("text", ctypes.c_char * 1015))


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


class Library:
    """A shared object that was built, and its functions' entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.ok_set_pool.argtypes = (ctypes.c_void_p,)
        self._library.ok_set_pool(_pool_address())
        self._entries: dict[str, tuple[int, int]] = {}

    def entry(self, function: Function) -> tuple[int, int]:
        """The address of the entry, and the scratch that a thread of a block needs."""
        found = self._entries.get(function.name)
        if found is None:
            address = ctypes.cast(self._library[f"ok_entry_{function.name}"], ctypes.c_void_p).value or 0
            scratch = (
                ctypes.c_uint64.in_dll(self._library, f"ok_scratch_{function.name}").value if function.is_kernel else 0
            )
            found = self._entries[function.name] = (address, scratch)
        return found

    def run(self, function: Function, values: list[int], grid: tuple[int, int, int], threads: int, cost: float) -> None:
        """Run a function or every block of a kernel.

        Raises:
            KernelError: what it reported, with the block where it is a kernel.
        """
        address, scratch = self.entry(function)
        report = _Report(2**63 - 1, b"\0", b"")
        packed = (ctypes.c_uint64 * (len(values) + 1))(*values, ctypes.addressof(report))
        failure = pool().run(address, bytes(packed), grid, scratch * (threads + 1) + 64, cost)
        if failure is not None:
            _, x, y, z = failure
            text = located(report.text.decode(errors="replace"), self.path)
            if function.is_kernel:
                raise KernelError(f"kernel {function.name!r}, block ({x}, {y}, {z}): {text}")
            raise KernelError(f"function {function.name!r}: {text}")


_PoolCall = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@cache
def _pool_callback() -> Any:
    """The pool as C++ calls it, by way of Python."""

    def run(entry: int, slots: int, chunks: int) -> None:
        pool().run(entry, ctypes.string_at(slots, 8), (chunks, 1, 1), 0, 0.0)

    return _PoolCall(run)


def _pool_address() -> int:
    """The address of the pool's function: the C extension's own where it has one."""
    own = getattr(native(), "pool_address", None)
    if own is not None:
        pool()  # sets the number of threads
        return int(own())
    return ctypes.cast(_pool_callback(), ctypes.c_void_p).value or 0


class Module:
    """What `load_inline` makes: an attribute for each function and kernel."""

    def __init__(self, sources: Sequence[Source], settings: Settings, explicit: Explicit) -> None:
        self._settings = settings
        self._sources = tuple(sources)
        self._functions = _declared(sources, explicit)
        everything = [f for found in self._functions.values() for f in found]
        if not everything:
            raise SignatureError(f"module {settings.name!r}: {_nothing(sources)}")
        self._cpu: Library | None = None
        self._gpu = {
            function.name: source
            for file in sources
            if file.is_cuda
            for source in [_gpu_source(file, settings, self._functions[file.file])]
            for function in self._functions[file.file]
        }
        if not gpu.available() or any(not source.is_cuda for source in sources):
            self._library()
        else:  # errors of the source are to be seen now, not at the first launch
            for source in {id(source): source for source in self._gpu.values()}.values():
                source.compile(0)
        self._attributes: dict[str, Kernel | CFunction] = {
            f.name: Kernel(self, f) if f.is_kernel else CFunction(self._library(), f) for f in everything
        }

    def _library(self) -> Library:
        """The library for the CPU, built when first needed."""
        if self._cpu is None:
            self._emulated = {s.file: emulate(s.text, s.file) if s.is_cuda else None for s in self._sources}
            self._cpu = Library(build.build(self._recipe()))
        return self._cpu

    def _identity(self) -> str:
        return self._library().path.parent.name

    def _recipe(self) -> build.Recipe:
        settings = self._settings
        units = {}
        for index, source in enumerate(self._sources):
            emulated: Emulated | None = self._emulated[source.file]
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


def _nothing(sources: Sequence[Source]) -> str:
    if any(source.is_cuda for source in sources):
        return "the source has no __global__ kernel"
    return "the source has no function that Python may call: one that is neither static, inline nor a template"


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
    return _module(
        name, found, functions, extra_cflags, extra_cuda_cflags, extra_ldflags, folders, macros, checked, stack_bytes
    )


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
    checked: bool | None,
    stack_bytes: int | None,
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
    )
    return Module(sources, settings, explicit)
