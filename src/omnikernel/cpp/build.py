"""Libraries on disk: built once for each content, by one process, found by all.

In: a `Recipe`. Out: a folder with `module.so` and a manifest. The key is the hash of all that the library depends on: sources,
flags, compiler, processor, our version and headers. A build happens under a lock of the operating system, which dies with
its holder, in a folder of its own that is renamed when it is complete: a killed build leaves nothing that is taken for an
entry, and nobody waits for it. A damaged entry counts as absent. Reading an entry takes no lock.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .. import __version__, config
from .toolchain import (
    INCLUDE,
    WATCHED,
    BuildError,
    Compiler,
    base_flags,
    find_compiler,
    host_cpu,
    no_space,
    run_compiler,
)

FORMAT = 1
LOCK_SECONDS = 120.0  # how long to wait for another process that builds the same; then build without it


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to build. `sources` and `originals` map a file name to its text: as it is compiled, and as the user wrote it."""

    name: str
    sources: Mapping[str, str]
    originals: Mapping[str, str]
    flags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    macros: Mapping[str, str] = field(default_factory=dict)
    cuda: bool = False
    checked: bool = False
    march: str = "native"  # the processor, as the compiler names it

    def arguments(self) -> list[str]:
        """The compiler's, but for the files."""
        own = [f"-I{INCLUDE}", f"-I{INCLUDE / 'emulation'}"]
        macros = [f"-D{k}={v}" if v else f"-D{k}" for k, v in self.macros.items()]
        return [
            *base_flags(self.cuda, self.checked, self.march),
            *own,
            *(f"-I{i}" for i in self.includes),
            *macros,
            *self.flags,
        ]


def folder() -> Path:
    """Where libraries are kept."""
    return config.cache_dir() / "cpp"


@cache
def headers() -> str:
    """A hash of our own headers, which every library includes."""
    total = hashlib.sha256()
    for path in sorted((*INCLUDE.rglob("*.h"), *INCLUDE.rglob("*.cpp"))):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def key(recipe: Recipe, compiler: Compiler) -> str:
    """The content key: equal keys mean the same library. Headers of the user's own count by their content."""
    parts = asdict(recipe)
    parts.pop("originals")  # the sources hold them, line by line
    parts["included"] = included(recipe.includes)
    parts |= {"format": FORMAT, "omnikernel": __version__, "headers": headers(), "compiler": compiler.version}
    parts |= {"command": compiler.command, "cpu": host_cpu(), "arguments": recipe.arguments()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def included(includes: Sequence[str]) -> dict[str, str]:
    """The hash of every header in the user's include folders."""
    found = {}
    for include in includes:
        for path in sorted(Path(include).rglob("*")):
            if path.suffix in (".h", ".hpp", ".hh", ".cuh", ".inl", ".inc", "") and path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def build(recipe: Recipe, compiler: Compiler | None = None) -> Path:
    """The library of a recipe, from the cache or new.

    Raises:
        BuildError: no compiler, an error in the source, no space on the disk.
    """
    chosen = compiler or find_compiler(folder())

    def make(work: Path) -> None:
        units = []
        for index, text in enumerate(recipe.sources.values()):
            units.append(f"unit{index}.cpp")
            (work / units[-1]).write_text(text)
        _compile(recipe, chosen, work, units)

    about = {"compiler": chosen.version, "flags": recipe.arguments()}
    return kept(Output(recipe.name, key(recipe, chosen), "module.so", recipe.originals, about), make)


@dataclass(frozen=True, slots=True)
class Output:
    """What a build leaves: its key, the file that counts, the user's sources to lie beside it, and notes for the manifest."""

    name: str
    key: str
    file: str
    originals: Mapping[str, str]
    about: Mapping[str, Any]


def kept(output: Output, make: Callable[[Path], None]) -> Path:
    """The file of an entry, from the cache or made now by `make`, which gets an empty folder.

    Raises:
        BuildError: as `make` does; no space on the disk.
    """
    base = folder()
    found = entry(base, output.key, output.file)
    if found is not None:
        return found
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(base / f"{output.key}.lock") as locked:
            found = entry(base, output.key, output.file)
            if found is not None:
                return found
            if locked:
                for orphan in base.glob(f"{output.key}.*.tmp"):  # of a build that was killed: its lock is ours now
                    shutil.rmtree(orphan, ignore_errors=True)
            return _make(output, make, base)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_space(output.name, base / output.key) from error
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        _warn(base, error)
    return entry(_private(), output.key, output.file) or _make(output, make, _private())


def entry(base: Path, name: str, file: str) -> Path | None:
    """The file of this key, if it is there, the user's own and as it was written."""
    try:
        manifest = json.loads((base / name / "manifest.json").read_bytes())
        path = base / name / file
        about = path.stat()
        if about.st_uid not in (os.geteuid(), 0) or about.st_mode & 0o022 or not stat.S_ISREG(about.st_mode):
            return None
        intact = manifest["key"] == name and manifest["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path if intact else None


def _make(output: Output, make: Callable[[Path], None], base: Path) -> Path:
    """Build in a folder of its own, then give it its name."""
    work = Path(tempfile.mkdtemp(prefix=f"{output.key}.", suffix=".tmp", dir=base))
    try:
        for file, text in output.originals.items():
            if not Path(file).is_absolute():
                (work / file).write_text(text)
        make(work)
        path = work / output.file
        path.chmod(0o700)
        manifest = {"key": output.key, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "name": output.name}
        (work / "manifest.json").write_text(json.dumps({**manifest, **output.about}, indent=1))
        _rename(work, base / output.key, output.file)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return base / output.key / output.file


def _compile(recipe: Recipe, compiler: Compiler, work: Path, units: list[str]) -> None:
    """From the units to module.so.

    Checked CUDA is compiled with the calls of two sanitizers but linked with our own other end of them, so in steps.
    """
    last = ["-o", "module.so", *recipe.ldflags]
    if not (recipe.checked and recipe.cuda):
        run_compiler(compiler, [*recipe.arguments(), *units, *last], work, recipe.name)
        return
    for unit in units:
        arguments = [*recipe.arguments(), *WATCHED, "-c", unit, "-o", f"{unit}.o"]
        run_compiler(compiler, [a for a in arguments if a != "-shared"], work, recipe.name)
    objects = [*(f"{unit}.o" for unit in units), str(INCLUDE / "omnikernel_watch.cpp")]
    run_compiler(compiler, [*recipe.arguments(), *objects, *last], work, recipe.name)


def _rename(work: Path, target: Path, file: str) -> None:
    """Put the finished folder in place; one that is there already is either as good, or damaged and replaced."""
    for _ in range(3):
        try:
            os.rename(work, target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if entry(target.parent, target.name, file) is not None:
                return
            shutil.rmtree(target, ignore_errors=True)
    raise BuildError(f"the damaged entry {target} could not be replaced; delete it")


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold the lock of this file, which the system frees when its holder ends, however it ends.

    Gives False where the lock could not be had in time or the file system has none: the build is right without it too,
    since entries appear by renaming.
    """
    try:
        import fcntl
    except ImportError:  # not on this system
        yield False
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        yield _acquire(handle, fcntl)
    finally:
        os.close(handle)


def _acquire(handle: int, fcntl: Any) -> bool:
    until = time.monotonic() + LOCK_SECONDS
    pause = 0.005
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
        except OSError:
            return False


@cache
def _private() -> Path:
    """A folder of this process, for libraries that the cache cannot keep."""
    made = tempfile.mkdtemp(prefix="omnikernel-cpp-")
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(made, ignore_errors=True) if os.getpid() == owner else None)
    return Path(made)


def _warn(base: Path, error: OSError) -> None:
    advice = "set OMNIKERNEL_CACHE_DIR to a folder of yours to keep compiled libraries"
    warnings.warn(f"the cache {base} cannot be written: {error}; {advice}", RuntimeWarning, stacklevel=4)
