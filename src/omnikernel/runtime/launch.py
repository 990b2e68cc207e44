"""Launches: argument slots, checks, the choice between the disjoint and the conservative variant, and the run itself.

In: an `Artefact`, a grid and values in the order of the artefact's parameters (`Executable.run`), or the arguments as
Triton's launcher gets them (`Launcher`). Out: results in the caller's arrays, or an error that names kernel and parameter.
"""

from __future__ import annotations

import hashlib
import operator
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from .. import config
from ..artefact import Artefact, Parameter
from ..errors import ArgumentTypeError, ArgumentValueError, DeviceAssertionError
from ..ir.types import Pointer, Scalar
from . import cache
from .arrays import DTYPES, ArrayView, Where, view_at
from .pool import Grid, pool

_MASK = (1 << 64) - 1
# MLIR's name of an element type -> Triton's dtypes of it (integers have no sign in MLIR).
_ELEMENTS = {
    **{f"i{bits}": (f"i{bits}", f"u{bits}") for bits in (16, 32, 64)},
    "i8": ("i8", "u8", "fp8e4b15"),  # which MLIR does not know
    "i1": ("i1",),
    "f16": ("fp16",),
    "bf16": ("bf16",),
    "f32": ("fp32",),
    "f64": ("fp64",),
    "f8E4M3FN": ("fp8e4nv",),
    "f8E5M2": ("fp8e5",),
    "f8E4M3FNUZ": ("fp8e4b8",),
    "f8E5M2FNUZ": ("fp8e5b16",),
    "f8E4M3B11FNUZ": ("fp8e4b15",),
}
_NUMPY_NAMES = {triton: numpy for numpy, triton in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled form of a kernel, linked into this process."""

    address: int
    artefact: Artefact
    loaded: object  # keeps the code alive


class Executable:
    """A kernel that can be launched. Code is linked, and the other variant compiled, when first needed."""

    def __init__(self, artefact: Artefact) -> None:
        self.artefact = artefact
        self._variants: dict[bool, Variant] = {}
        self._lock = threading.Lock()
        self._encoders = tuple(_encoder(artefact.name, parameter) for parameter in artefact.parameters)
        self._written = tuple(i for i, parameter in enumerate(artefact.parameters) if parameter.written)
        # What it prints goes past Python's own buffer.
        self.prints = "tt.print" in artefact.texts.get("ttir", "")

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.artefact.name

    def run(self, grid: Sequence[int], values: Sequence[Any]) -> None:
        """Run every program of the grid, and return when all are done.

        Args:
            grid: programs along x, y, z; fewer entries mean 1. A zero anywhere: nothing runs, arguments are still checked.
            values: arrays and numbers, one a parameter. A pointer parameter also takes an integer address or None (null).

        Raises:
            ArgumentTypeError, ArgumentValueError: a value that its parameter cannot take, or a grid that is none.
            DeviceAssertionError: a `tl.device_assert` failed.
            MemoryError: no scratch memory.
        """
        extents = extents_of(self.name, grid)
        slots, views = self.encode(values)
        if 0 in extents:
            return
        if config.reference():
            self._run_reference(extents, slots)
            return
        variant = self.variant(self.is_disjoint(slots, views))
        artefact = variant.artefact
        packed = struct.pack(f"={len(slots)}Q", *slots)
        if self.prints and sys.stdout is not None:
            sys.stdout.flush()
        failure = pool().run(variant.address, packed, extents, artefact.arena_bytes, artefact.cost)
        if failure is not None:
            self.fail(failure[0], failure[1:])

    def encode(self, values: Sequence[Any]) -> tuple[list[int], list[ArrayView | None]]:
        """The 64-bit slots of the arguments, and the view of each array.

        Raises:
            ArgumentTypeError, ArgumentValueError: a value that its parameter cannot take.
        """
        if len(values) != len(self._encoders):
            names = ", ".join(parameter.name for parameter in self.artefact.parameters)
            raise ArgumentTypeError(
                f"kernel {self.name!r}: expected {len(self._encoders)} ({names}), got {len(values)}"
            )
        encoded = [encode(value) for encode, value in zip(self._encoders, values, strict=True)]
        return [slot for slot, _ in encoded], [found for _, found in encoded]

    def is_disjoint(self, slots: Sequence[int], views: Sequence[ArrayView | None]) -> bool:
        """No array that the kernel writes shares a byte with another argument, as far as can be known."""
        pointers = [i for i, p in enumerate(self.artefact.parameters) if isinstance(p.type, Pointer) and slots[i] != 0]
        extents = [found.extent if found is not None else None for found in views]
        for i in self._written:
            for j in pointers:
                if j != i and slots[i] != 0 and _may_overlap(extents[i], extents[j]):
                    return False
        return True

    def variant(self, disjoint: bool) -> Variant:
        """The linked code for disjoint or for any arguments, compiled where it is not yet."""
        found = self._variants.get(disjoint)
        if found is not None:
            return found
        with self._lock:
            if disjoint not in self._variants:
                self._variants[disjoint] = self._load(disjoint)
            return self._variants[disjoint]

    def loaded(self, disjoint: bool) -> Variant | None:
        """The variant if it has been linked already."""
        return self._variants.get(disjoint)

    def _load(self, disjoint: bool) -> Variant:
        from ..llvm import jit

        artefact = self.artefact
        if artefact.options.disjoint != disjoint:
            artefact = _recompiled(artefact, disjoint)
        loaded = jit.load_object(artefact.object, artefact.name)
        return Variant(loaded.address, artefact, loaded)

    def _run_reference(self, grid: Grid, slots: Sequence[int]) -> None:
        from .. import reference
        from ..passes.clip import clip
        from ..passes.contract import contract
        from ..ttir.parse import parse

        kernel = clip(parse(_ttir(self.artefact)))
        if self.artefact.options.fp_fusion:
            kernel = contract(kernel)
        numbers = [_number(slot, p.type) for slot, p in zip(slots, self.artefact.parameters, strict=True)]
        reference.run(kernel, numbers, grid)

    def fail(self, code: int, program: Sequence[int]) -> NoReturn:
        """Raise for the failed assert number `code` (from 1) in program (x, y, z).

        Raises:
            DeviceAssertionError: always.
        """
        asserts = self.artefact.asserts
        message = asserts[code - 1] if 0 < code <= len(asserts) else f"assert number {code}"
        x, y, z = program
        raise DeviceAssertionError(
            f"kernel {self.name!r}, program ({x}, {y}, {z}): device-side assert failed: {message}"
        )


def _may_overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Unknown extents may overlap anything but an empty array."""
    for extent in (one, other):
        if extent is not None and extent[0] == extent[1]:
            return False
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])


def _ttir(artefact: Artefact) -> str:
    text = artefact.texts.get("ttir")
    if text is None:
        raise ArgumentValueError(
            f"kernel {artefact.name!r}: expected an artefact with its TTIR, got one without; compile the kernel again"
        )
    return text


def _recompiled(artefact: Artefact, disjoint: bool) -> Artefact:
    """The kernel compiled from its TTIR for the other answer to "do arguments overlap", by way of the disk cache."""
    from .. import pipeline
    from ..llvm import jit

    options, target, text = replace(artefact.options, disjoint=disjoint), jit.host_target(), _ttir(artefact)
    kernels = cache.KernelCache(config.cache_dir() / "variants")
    key = cache.key(text, options, target)
    found = kernels.get(key)
    if found is None:
        found = pipeline.compile_text(text, options, target)
        kernels.put(key, found)
    return found


# ---- values to slots ----

Encoded = tuple[int, ArrayView | None]
Encoder = Callable[[Any], Encoded]


def extents_of(kernel: str, grid: Sequence[int]) -> Grid:
    """A grid of three extents.

    Raises:
        ArgumentTypeError: an entry is no whole number.
        ArgumentValueError: an entry is negative or beyond 2^31 - 1, or there are none or more than three.
    """
    try:
        entries = [operator.index(entry) for entry in grid]
    except TypeError:
        raise ArgumentTypeError(f"kernel {kernel!r}: expected a grid of whole numbers, got {grid!r}") from None
    if not 1 <= len(entries) <= 3 or any(not 0 <= entry < 1 << 31 for entry in entries):
        raise ArgumentValueError(
            f"kernel {kernel!r}: expected a grid of one to three numbers from 0 to 2147483647, got {tuple(entries)}"
        )
    x, y, z = (*entries, 1, 1)[:3]
    return x, y, z


def _encoder(kernel: str, parameter: Parameter) -> Encoder:
    where = Where(kernel, parameter.name)
    type_ = parameter.type
    if isinstance(type_, Pointer):
        element = type_.pointee
        accepted = _ELEMENTS.get(element.kind, ()) if isinstance(element, Scalar) else ()
        return lambda value: _encode_pointer(value, where, accepted, parameter.written)
    if type_.is_float:
        return lambda value: (float_bits(_number_of(value, where, type_), type_.kind), None)
    return lambda value: (_integer_bits(_number_of(value, where, type_), type_, where), None)


def _encode_pointer(value: Any, where: Where, accepted: tuple[str, ...], written: bool) -> Encoded:
    if value is None:
        return 0, None
    if isinstance(value, int) and not isinstance(value, bool):
        return value & _MASK, None
    found = view_at(value, where)
    if found is None:
        expected = f"an array of {_names(accepted)}" if accepted else "an array"
        advice = "pass a NumPy array, a CPU torch tensor, a JAX array, or an object with DLPack or a buffer"
        raise where.type_error(expected, _described(value), advice)
    if accepted and found.dtype not in accepted:
        got = f"an array of {_names((found.dtype,))}"
        raise where.type_error(f"an array of {_names(accepted)}", got, "the kernel was compiled for the former")
    if written and not found.writeable:
        _refuse_write(found, where)
    return found.address & _MASK, found


def _refuse_write(found: ArrayView, where: Where) -> NoReturn:
    if found.library == "jax":
        advice = "JAX arrays are immutable: use omnikernel.jax.triton_call, or pass a NumPy array to write into"
        raise where.type_error("an array that the kernel can write", "a JAX array", advice)
    kind = {"numpy": "a read-only NumPy array"}.get(found.library, f"read-only memory ({found.library})")
    raise where.value_error("an array that the kernel can write", kind, "pass a writeable copy")


def _names(dtypes: Sequence[str]) -> str:
    return " or ".join(_NUMPY_NAMES.get(dtype, dtype) for dtype in dtypes)


def _described(value: Any) -> str:
    return f"{value!r}" if isinstance(value, (bool, int, float, str)) else f"a {type(value).__qualname__}"


def _number_of(value: Any, where: Where, type_: Scalar) -> int | float:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise where.type_error(f"a number ({type_})", _described(value), "pass a Python or NumPy number")


def _integer_bits(value: int | float, type_: Scalar, where: Where) -> int:
    if isinstance(value, float):
        raise where.type_error(f"an integer ({type_})", repr(value), "pass an int")
    bits = type_.bits
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise where.value_error(f"an integer of {bits} bits", str(value), "annotate the parameter with a wider type")
    return value & 1 if bits == 1 else value & _MASK


def float_bits(value: int | float, kind: str) -> int:
    """The bits of a float in the low bytes of a slot; rounded to nearest even, beyond the range to infinity."""
    number = float(value)
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", number), "little")
    with np.errstate(over="ignore"):
        narrow = np.array(number, _numpy_dtype(kind))
    return int.from_bytes(narrow.tobytes(), "little")


def _numpy_dtype(kind: str) -> np.dtype[Any]:
    if kind in ("f32", "f16"):
        return np.dtype(np.float32 if kind == "f32" else np.float16)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _NUMPY_NAMES[_ELEMENTS[kind][0]]))
    return dtype


def _number(slot: int, type_: Pointer | Scalar) -> int | float | bool:
    """The value in a slot, as the reference takes it."""
    if isinstance(type_, Pointer):
        return slot
    if type_.kind == "f64":
        return float(struct.unpack("<d", slot.to_bytes(8, "little"))[0])
    if type_.is_float:
        dtype = _numpy_dtype(type_.kind)
        return float(np.frombuffer(slot.to_bytes(8, "little")[: dtype.itemsize], dtype)[0])
    if type_.kind == "i1":
        return bool(slot & 1)
    low = slot & (1 << type_.bits) - 1
    return low - (1 << type_.bits) if low >> type_.bits - 1 else low


# ---- Triton's launcher ----

_EXECUTABLES: WeakValueDictionary[bytes, Executable] = WeakValueDictionary()
_EXECUTABLES_LOCK = threading.Lock()


def executable(packed: bytes) -> Executable:
    """The executable of a packed artefact; one for equal bytes, as long as anyone holds it.

    Raises:
        CorruptArtefact: the bytes are not what `cache.pack` makes.
    """
    digest = hashlib.sha256(packed).digest()
    with _EXECUTABLES_LOCK:
        found = _EXECUTABLES.get(digest)
        if found is None:
            found = _EXECUTABLES[digest] = Executable(cache.unpack(packed))
        return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """One runtime argument: where it is among the launcher's arguments, e.g. (2,) or, inside a tuple, (2, 0)."""

    path: tuple[int, ...]
    descriptor: bool

    def of(self, arguments: Sequence[Any]) -> Any:
        value: Any = arguments
        for index in self.path:
            value = value[index]
        return value


def _leaves(signature: Any, constants: frozenset[tuple[int, ...]], path: tuple[int, ...]) -> Iterator[Leaf]:
    if isinstance(signature, (tuple, list)):
        for index, inner in enumerate(signature):
            yield from _leaves(inner, constants, (*path, index))
    elif signature != "constexpr" and path not in constants:
        yield Leaf(path, isinstance(signature, str) and signature.startswith("tensordesc"))


def flatten_descriptor(descriptor: Any) -> list[Any]:
    """A host tensor descriptor as Triton's rewriting to pointers expects its parts.

    The order is base, shape, strides, padding is nan, (from Triton 3.7 on) rounding to tf32, shape, strides.
    """
    extents, strides = list(descriptor.shape), list(descriptor.strides)
    flags = [descriptor.padding == "nan"]
    if hasattr(descriptor, "round_f32_to_tf32"):
        flags.append(descriptor.round_f32_to_tf32)
    return [descriptor.base, *extents, *strides, *flags, *extents, *strides]


class Launcher:
    """Triton's `launcher_cls`: made once a compiled kernel, called once a launch."""

    def __init__(self, src: Any, metadata: Any) -> None:
        """Find the runtime arguments.

        Args:
            src: Triton's source object; `signature` (name -> type, nested for tuples) and `constants` are read.
            metadata: the kernel's metadata; not needed, the artefact holds all.
        """
        names = list(getattr(getattr(src, "fn", None), "arg_names", None) or src.signature)
        # A source made by hand may have names as keys, and no entry in the signature for a constant.
        keys = (key if isinstance(key, tuple) else (names.index(key),) for key in getattr(src, "constants", None) or ())
        constants = frozenset(keys)
        by_position = [names.index(name) if name in names else i for i, name in enumerate(src.signature)]
        self.leaves: tuple[Leaf, ...] = tuple(
            leaf
            for position, type_ in zip(by_position, src.signature.values(), strict=True)
            for leaf in _leaves(type_, constants, (position,))
        )
        self.executable: Executable | None = None
        self._function: object = None

    def load(self, function: bytes | Executable) -> Executable:
        """What runs the function of a compiled kernel, made once."""
        if self.executable is None or function is not self._function:
            self.executable = function if isinstance(function, Executable) else executable(function)
            self._function = function
        return self.executable

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: object,
        function: bytes | Executable,
        packed_metadata: object,
        launch_metadata: object,
        enter_hook: Callable[[Any], object] | None,
        exit_hook: Callable[[Any], object] | None,
        *arguments: Any,
    ) -> None:
        """Launch. `function` is the packed artefact or an `Executable`; `arguments` are all of the kernel's.

        Raises:
            ArgumentTypeError, ArgumentValueError, DeviceAssertionError: as `Executable.run`.
        """
        run = self.load(function).run
        if enter_hook is not None:
            enter_hook(launch_metadata)
        values: list[Any] = []
        for leaf in self.leaves:
            value = leaf.of(arguments)
            values.extend(flatten_descriptor(value) if leaf.descriptor else (value,))
        run((grid_x, grid_y, grid_z), values)
        if exit_hook is not None:
            exit_hook(launch_metadata)
