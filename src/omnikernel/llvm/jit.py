"""From LLVM IR text to object code, and from object code to an address in this process.

The pass pipeline is short on purpose: the text already holds explicit lane vectors and hoisted address arithmetic, so
promoting slots and joining blocks is all that pays. NewGVN, the only pass for common subexpressions that llvmlite offers
alone, is left out: it made wrong code of 2 in 100,000 random programs, and gained nothing measurable. So is InstCombine:
it takes a tenth of the time, code generation combines again, and the loops that come out are as long without; what it
finds out about truncations (`trunc nuw`) moreover ends the process in LLVM 22 where two such vectors are compared.
Every external symbol is looked up before the object code is accepted, so a missing library function is an error at
compile time and never a jump to nowhere.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import llvmlite.binding as llvm

from ..elf import undefined_symbols
from ..errors import UnresolvedSymbol
from ..lower.lanes import LAST_CACHE, Target
from ..processors import cache_sizes
from ..relocatable import merge
from .calls import Calls, may_be_apart
from .pieces import divided
from .threads import at_once

_LOCK = threading.Lock()

# Where two object files, which are ELF on Linux, can be made one.
MERGED = ("x86_64", "aarch64")


# Switches of LLVM's code generation, while it is ours.
_SWITCHES = {
    # The lowering gives every loop its own pointer: a fifth of the time for nothing measurable.
    "disable-lsr": ("true", "false"),
    # A twelfth of the time. Processors that run instructions out of order gain nothing: a product is 6% faster without.
    "post-RA-scheduler": ("false", "true"),
    # A sixteenth each. Constants that are moved out of loops take registers there: without, the innermost loops of the
    # benchmark's kernels have a fifth fewer accesses to the stack, and no more instructions.
    "disable-machine-licm": ("true", "false"),
    "disable-cgp": ("true", "false"),
    # A thirtieth together; the innermost loops of 40 kernels stay as they are, to 13 of 12,174 instructions.
    "disable-copyprop": ("true", "false"),
    "disable-constant-hoisting": ("true", "false"),
    "disable-postra-machine-licm": ("true", "false"),
}


@contextmanager
def _quick_codegen() -> Iterator[None]:
    """Passes of LLVM that do not pay are off meanwhile; the switches are the process's, and others use LLVM, too."""
    with _LOCK:
        for name, (ours, _) in _SWITCHES.items():
            llvm.set_option("", f"-{name}={ours}")
        try:
            yield
        finally:
            for name, (_, theirs) in _SWITCHES.items():
                llvm.set_option("", f"-{name}={theirs}")


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("libm.so.6")


@functools.cache
def llvm_version() -> str:
    """LLVM's version with llvmlite's, for cache keys and `omnikernel info`."""
    import llvmlite

    return f"{'.'.join(map(str, llvm.llvm_version_info))} (llvmlite {llvmlite.__version__})"


def _may_use_tiles() -> bool:
    """Ask Linux for AMX's tile registers, which a process has only on request (Documentation/arch/x86/xstate.rst)."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return bool(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0)


@functools.cache
def host_target() -> Target:
    """The machine this process runs on."""
    _initialise()
    features = frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)
    if not _may_use_tiles():
        features = frozenset(name for name in features if not name.startswith("amx"))
    last_cache = min([*cache_sizes()[-1:], LAST_CACHE])
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features, last_cache)


@functools.lru_cache(maxsize=8)
def _machine(target: Target, number: int) -> Any:
    """A target machine, of which each thread has its own by a number: to begin with one takes a millisecond or two."""
    _initialise()
    if not target.triple.startswith(llvm.get_process_triple().split("-")[0]):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    features = [f"+{name}" for name in sorted(target.features)]
    if target.triple.startswith("x86_64"):
        # 512-bit registers are wanted wherever they exist: LLVM avoids them by default on some processors.
        features.append("-prefer-256-bit")
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu, features=",".join(features), opt=2, reloc="pic", codemodel="small"
    )


def _prepared(text: str, machine: Any, calls: Calls) -> Any:
    """The module of LLVM IR text after the passes."""
    module = calls.parse(text)
    calls.verify(module)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            calls.run(passes, function, builder)
    return module


def _object(text: str, machine: Any, calls: Calls) -> bytes:
    return calls.emit_object(machine, _prepared(text, machine, calls))


def compile_object(text: str, target: Target) -> bytes:
    """Compile LLVM IR text to relocatable object code.

    Raises:
        UnresolvedSymbol: the code calls a function that this process cannot provide (checked for the host only).
    """
    architecture, *system = target.triple.split("-")
    pieces = divided(text) if "linux" in system and architecture in MERGED else [text]
    with _quick_codegen():
        # One module alone is made in llvmlite's context: setting up another takes a millisecond.
        calls = Calls(apart=len(pieces) > 1)
        make = [partial(_object, piece, _machine(target, number), calls) for number, piece in enumerate(pieces)]
        made = at_once(make, alone=not may_be_apart())
        data = made[0] if len(made) == 1 else merge(made)
        if target == host_target():
            missing = [name for name in undefined_symbols(data) if llvm.address_of_symbol(name) is None]
            if missing:
                raise UnresolvedSymbol(f"generated code calls {', '.join(missing)}, which this host does not provide")
    return data


def assembly(text: str, target: Target) -> str:
    """The assembly of LLVM IR text, for reading."""
    with _quick_codegen():
        machine = _machine(target, 0)
        return str(machine.emit_assembly(_prepared(text, machine, Calls(apart=False))))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Object code in memory. The address is valid while this object lives."""

    address: int
    engine: Any


@functools.cache
def _lljit() -> Any:
    host_target()  # asks for the registers that code from the cache may use
    return llvm.create_lljit_compiler()


_counter = iter(range(1 << 62))


def load_object(data: bytes, name: str) -> Loaded:
    """Link object code into this process and find the symbol `name`."""
    with _LOCK:
        library = llvm.JITLibraryBuilder().add_object_img(data).export_symbol(name).add_current_process()
        tracker = library.link(_lljit(), f"kernel{next(_counter)}")
        return Loaded(int(tracker[name]), tracker)


def function_at(address: int) -> Any:
    """A ctypes function with the signature documented in `artefact.Artefact`."""
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    return kind(address)
