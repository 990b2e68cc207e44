"""Triton kernels as shared objects for levels of a processor.

In: a kernel, its declared forms, a level. Out: one shared object with two entries a form (for arrays that share no memory, and
for any), and a table that describes them to C programs (`include/omnikernel_shipped.h`). Linked by the C++ compiler against the C
library alone: no Python, no LLVM, nothing of ours is needed to load it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import pipeline
from ..cpp import build
from ..cpp.toolchain import BuildError, Compiler, find_compiler
from ..frontend import ttir_text
from ..llvm import jit
from ..lower.lanes import Target
from ..passes.alias import find_roots, written_and_read
from ..runtime.cache import key
from ..ttir import parse
from .levels import Level
from .package import ABI

_DISJOINT = {"disjoint": True, "any": False}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A form to build. `constants` and `options` are pairs; `runtime` are the parameters that a launch passes, in order."""

    kernel: Any
    name: str
    signature: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]
    runtime: tuple[str, ...]


def signature_text(wanted: Wanted) -> str:
    """The signature for a CPU: what an address or a number is divisible by changes no code there."""
    return ",".join(part.removesuffix(":16") for part in wanted.signature)


def ttir_of(wanted: Wanted) -> str:
    """The TTIR of a form, by Triton's front end."""
    return ttir_text(wanted.kernel, signature_text(wanted), dict(wanted.constants))


def target_of(level: Level) -> Target:
    """What code for a level may use."""
    return Target(level.triple, level.cpu, level.features)


def slots(wanted: Wanted, ttir: str) -> list[list[Any]]:
    """The slots of a form as the manifest holds them: name, type, read, written."""
    kernel = parse(ttir, "")
    written, read = written_and_read(kernel, find_roots(kernel, True))
    parameters = zip(wanted.runtime, kernel.entry.args, strict=True)
    return [[name, str(a.type), a in read, a in written] for name, a in parameters]


@dataclass(frozen=True, slots=True)
class Entry:
    """One compiled form: an artefact for each answer to "do arrays share memory", named by its symbol, and its content key."""

    wanted: Wanted
    artefacts: Mapping[str, pipeline.Artefact]
    keys: Mapping[str, str]
    prints: bool

    def about(self, file: str) -> dict[str, Any]:
        """The manifest's entry."""
        found: dict[str, Any] = {"file": file, "prints": self.prints}
        for name, artefact in self.artefacts.items():
            found[name] = {
                "symbol": artefact.name,
                "key": self.keys[name],
                "arena_bytes": artefact.arena_bytes,
                "cost": artefact.cost,
                "in_order": artefact.in_order,
                "asserts": list(artefact.asserts),
            }
        return found


def compile_form(wanted: Wanted, number: int, level: Level, ttir: str) -> Entry:
    """Compile one form for one level.

    Args:
        wanted: the form.
        number: its number in the kernel; part of the symbols.
        level: what to compile for.
        ttir: its TTIR.

    Raises:
        UnsupportedOp: the kernel uses what cannot be compiled for a CPU.
    """
    kernel = parse(ttir, "")
    target, artefacts, keys = target_of(level), {}, {}
    for name, disjoint in _DISJOINT.items():
        symbol = f"{wanted.name}_{number}" + ("" if disjoint else "_any")
        functions = tuple(replace(f, name=symbol) if f.public else f for f in kernel.functions)
        fusion = bool(dict(wanted.options).get("enable_fp_fusion", True))
        options = pipeline.Options(fp_fusion=fusion, disjoint=disjoint)
        artefacts[name] = pipeline.compile_kernel(replace(kernel, functions=functions), options, target, ttir)
        keys[name] = key(ttir, options, target)
    return Entry(wanted, artefacts, keys, "tt.print" in ttir)


def link(name: str, entries: Sequence[Entry], level: Level, path: Path) -> None:
    """Link the forms of a kernel for one level to a shared object.

    Raises:
        BuildError: there is no compiler for the level's machine, or it failed.
    """
    objects = [artefact.object for entry in entries for artefact in entry.artefacts.values()]
    objects.append(jit.compile_object(_table(entries, level), target_of(level)))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, data in enumerate(objects):
            files.append(f"{number}.o")
            Path(folder, files[-1]).write_bytes(data)
        # Nothing but the C library, no start-up code, all symbols found now, and nothing that differs from build to build.
        options = [
            "-shared",
            "-nostartfiles",
            "-nodefaultlibs",
            "-Wl,--as-needed",
            "-Wl,-z,defs,-z,now,-z,relro,-z,noseparate-code",
        ]
        options += [f"-Wl,-soname,{path.name}", "-Wl,--build-id=none", "-Wl,--strip-debug", "-o", "out.so"]
        command = [*compiler_for(level).command, *options, *files, "-lm", "-lc"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode:
            raise BuildError(f"kernel {name!r} for {level.name}: {shlex.join(command)} failed:\n{run.stderr.strip()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(folder, "out.so"), path)


def compiler_for(level: Level) -> Compiler:
    """The C++ compiler, which also knows the linker and where the C library is; for another machine, its cross compiler.

    Raises:
        BuildError: there is none.
    """
    if os.uname().machine == level.machine:
        return find_compiler(build.folder())
    name = f"{level.machine}-linux-gnu-g++"
    if shutil.which(name) is None:
        raise BuildError(
            f"level {level.name}: compiling and linking for {level.machine} needs {name}; install g++-{level.machine}-linux-gnu"
        )
    return find_compiler(build.folder(), {**os.environ, "CXX": name})


def _table(entries: Sequence[Entry], level: Level) -> str:
    """LLVM IR of the table that C programs read: `ok_shipped_kernel` of include/omnikernel_shipped.h, one a form."""
    lines = [f'target triple = "{level.triple}"']
    row = "{ ptr, ptr, ptr, ptr, ptr, i64, i64, i64 }"
    rows = []
    for number, entry in enumerate(entries):
        first = entry.artefacts["disjoint"]
        texts = (entry.wanted.name, _slots_text(entry), _constants_text(entry.wanted))
        for which, text in enumerate(texts):
            data = text.encode() + b"\0"
            escaped = "".join(f"\\{byte:02X}" for byte in data)
            lines.append(f'@text.{number}.{which} = private unnamed_addr constant [{len(data)} x i8] c"{escaped}"')
        for artefact in entry.artefacts.values():
            lines.append(f"declare i32 @{artefact.name}(ptr, ptr, i64, i64, ptr, ptr)")
        both = entry.artefacts["any"]
        rows.append(
            f"{row} {{ ptr @text.{number}.0, ptr @text.{number}.1, ptr @text.{number}.2, ptr @{first.name}, ptr @{both.name}, "
            f"i64 {first.arena_bytes}, i64 {both.arena_bytes}, i64 {len(first.parameters)} }}"
        )
    lines.append(f"@ok_shipped_abi = constant i32 {ABI}")
    lines.append(f"@ok_shipped_count = constant i32 {len(rows)}")
    lines.append(f"@ok_shipped_kernels = constant [{len(rows)} x {row}] [{', '.join(rows)}]")
    return "\n".join(lines) + "\n"


def _slots_text(entry: Entry) -> str:
    """The types of the slots, in Triton's words."""
    parts = [part for part in signature_text(entry.wanted).split(",") if not part.endswith(":1")]
    return ", ".join(parts)


def _constants_text(wanted: Wanted) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in wanted.constants)
