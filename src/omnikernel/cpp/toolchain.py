"""The host's C++ compiler: which one, its version, and what a failed run of it means.

In: nothing, or the compiler that the user names. Out: a `Compiler`, and shared objects made with it.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import OmnikernelError

CANDIDATES = ("c++", "g++", "clang++")
WATCHED = ("-fsanitize=thread", "-fsanitize=bounds", "-g1")  # checked CUDA; omnikernel_watch.cpp says what for
INCLUDE = Path(__file__).resolve().parent.parent / "include"
_INSTALL = "install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; conda: conda install gxx) or name a compiler with CXX"


class BuildError(OmnikernelError):
    """A library could not be built: no compiler, an error in the source, no space."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler and its version, as it prints it."""

    command: tuple[str, ...]
    version: str

    @property
    def path(self) -> str:
        return self.command[0]


def find_compiler(folder: Path | None = None, environment: Mapping[str, str] = os.environ) -> Compiler:
    """The compiler to use: `CXX`, else the first of c++, g++, clang++ on the path.

    Args:
        folder: where to keep the versions of compilers, which take long to ask for; None: nowhere.
        environment: where `CXX` and `PATH` are.

    Raises:
        BuildError: there is none; the text names those tried.
    """
    named = environment.get("CXX", "").strip()
    commands = [tuple(shlex.split(named))] if named else [(name,) for name in CANDIDATES]
    path = environment.get("PATH", os.defpath)
    for command in commands:
        found = shutil.which(command[0], path=path)
        if found is not None:
            return Compiler((found, *command[1:]), _version(found, folder))
    tried = ", ".join(shlex.join(command) for command in commands)
    where = " (from CXX)" if named else ""
    raise BuildError(f"no C++ compiler was found; tried: {tried}{where}; {_INSTALL}")


@cache
def _version(path: str, folder: Path | None) -> str:
    real = os.path.realpath(path)
    about = os.stat(real)
    identity = f"{real} {about.st_size} {about.st_mtime_ns}"
    known = _read_versions(folder)
    if identity in known:
        return known[identity]
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise BuildError(
            f"the C++ compiler {path} does not answer --version: {run.stderr.strip() or run.stdout.strip()}"
        )
    version = f"{run.stdout.splitlines()[0] if run.stdout else ''} {identity}"
    _write_versions(folder, {**known, identity: version})
    return version


def _read_versions(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    try:
        found = json.loads((folder / "compilers.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_versions(folder: Path | None, known: dict[str, str]) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix="compilers.", suffix=".tmp", dir=folder)
        with os.fdopen(handle, "w") as file:
            json.dump(known, file)
        os.replace(temporary, folder / "compilers.json")
    except OSError:
        pass  # asked for again next time; a cache that cannot be written is reported where it costs more


def base_flags(cuda: bool, checked: bool, march: str = "native") -> tuple[str, ...]:
    """Flags of every build. No fast-math; `errno` and traps, which GPUs have not either, are given up for vectors.

    CUDA source reads memory through pointers of other types (`float4 *`) as a matter of course, C++ source does not.
    """
    common: tuple[str, ...] = ("-std=gnu++17", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
    common += (f"-march={march}", "-fno-math-errno", "-fno-trapping-math", "-fdiagnostics-color=never")
    common += ("-fno-strict-aliasing",) if cuda else ()
    return (*common, "-O1", "-DOK_CHECKED=1") if checked else (*common, "-O3")


@cache
def host_cpu() -> str:
    """What `-march=native` means here: the processor's model and features."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(8192).split("\n\n")[0].splitlines()
    except OSError:
        import platform

        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join(line for line in lines if line.startswith(wanted))


def run_compiler(compiler: Compiler, arguments: Sequence[str], folder: Path, name: str) -> None:
    """Run the compiler in `folder`.

    Raises:
        BuildError: it failed; the text holds its messages, which name the user's own files and lines.
    """
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    command = [*compiler.command, *arguments]
    try:
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"module {name!r}: {compiler.path} could not be run: {error}") from error
    if run.returncode == 0:
        return
    messages = run.stderr.strip() or run.stdout.strip()
    if os.strerror(errno.ENOSPC) in messages:
        raise no_space(name, folder) from None
    if run.returncode < 0:
        raise BuildError(f"module {name!r}: {compiler.path} was ended by signal {-run.returncode}\n{messages}")
    raise BuildError(f"module {name!r} does not compile with {compiler.path}:\n{messages}")


def no_space(name: str, folder: Path) -> BuildError:
    """The error of a full disk."""
    advice = "free some, or set OMNIKERNEL_CACHE_DIR to a folder on another disk"
    return BuildError(f"module {name!r}: no space left on the disk of {folder.parent}; {advice}")
