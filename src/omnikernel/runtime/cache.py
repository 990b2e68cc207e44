"""The disk cache of compiled kernels.

In: an `Artefact` and a key that holds everything the code depends on. Out: the same artefact, in this process or a later
one. A file is written under another name and then renamed, so that a reader never sees half of one; it is read only where
its owner is the user or root, and its hash and its key are checked. A damaged entry counts as absent and is replaced. A
folder that cannot be written costs one warning, never a launch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
import tempfile
import warnings
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import config
from ..artefact import Artefact, Options, Parameter
from ..errors import CorruptArtefact
from ..ir.types import FLOAT_BITS, INTEGER_BITS, Pointer, Scalar
from ..llvm.revision import revision

if TYPE_CHECKING:
    from ..lower.lanes import Target

MAGIC = b"OMNIKERN"
FORMAT = 1
# magic, format, SHA-256 of all that follows, length of the manifest; then the manifest (JSON) and the object code.
_HEADER = struct.Struct("<8sI32sQ")


def pack(artefact: Artefact) -> bytes:
    """The artefact as bytes, with a hash over manifest and object code."""
    manifest = json.dumps(artefact.manifest, sort_keys=True).encode()
    body = struct.pack("<Q", len(manifest)) + manifest + artefact.object
    return _HEADER.pack(MAGIC, FORMAT, hashlib.sha256(body).digest(), len(manifest)) + manifest + artefact.object


# Triton's entry is unpacked when it is found, to see that it is whole, and again when it is loaded.
@lru_cache(maxsize=4)
def unpack(data: bytes) -> Artefact:
    """The artefact that `pack` made these bytes from.

    Raises:
        CorruptArtefact: not from `pack`, of another format version, truncated or changed.
    """
    if len(data) < _HEADER.size:
        raise CorruptArtefact(f"a stored kernel has at least {_HEADER.size} bytes, got {len(data)}")
    magic, form, digest, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptArtefact(f"a stored kernel starts with {MAGIC!r}, got {magic!r}")
    if form != FORMAT:
        raise CorruptArtefact(f"expected a stored kernel of format {FORMAT}, got format {form}")
    body = struct.pack("<Q", length) + data[_HEADER.size :]
    if hashlib.sha256(body).digest() != digest:
        raise CorruptArtefact("a stored kernel does not have the hash that it was written with")
    manifest, code = data[_HEADER.size : _HEADER.size + length], data[_HEADER.size + length :]
    try:
        return _artefact(json.loads(manifest), code)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptArtefact(f"a stored kernel has a manifest that this version does not read: {error!r}") from error


def _artefact(manifest: dict[str, Any], code: bytes) -> Artefact:
    parameters = tuple(
        Parameter(name, type_of(text), read, written) for name, text, read, written in manifest["parameters"]
    )
    return Artefact(
        name=manifest["name"],
        object=code,
        parameters=parameters,
        arena_bytes=manifest["arena_bytes"],
        asserts=tuple(manifest["asserts"]),
        cost=manifest["cost"],
        in_order=manifest["in_order"],
        texts=manifest["texts"],
        options=Options(**manifest["options"]),
    )


def type_of(text: str) -> Pointer | Scalar:
    """A parameter's type as it prints."""
    if text in INTEGER_BITS or text in FLOAT_BITS:
        return Scalar(text)
    match = re.fullmatch(r"!tt\.ptr<(.+?)(?:, (\d+))?>", text)
    if match is None:
        raise ValueError(f"no type of a parameter: {text!r}")
    return Pointer(type_of(match[1]), int(match[2] or 1))


@cache
def toolchain() -> tuple[str, ...]:
    """The versions that generated code depends on: ours, Triton's, llvmlite's, LLVM's."""
    from importlib.metadata import PackageNotFoundError, version

    import llvmlite
    import llvmlite.binding as llvm

    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return revision(), triton, llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info))


def key(ttir: str, options: Options, target: Target) -> str:
    """The content key of a kernel: equal keys mean equal object code.

    Args:
        ttir: the kernel's TTIR text.
        options: what it is compiled with.
        target: the CPU it is compiled for.
    """
    parts = {
        "format": FORMAT,
        "toolchain": toolchain(),
        "triple": target.triple,
        "cpu": target.cpu,
        "features": sorted(target.features),
        "last_cache": target.last_cache,
        "options": asdict(options),
        "ttir": ttir,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class KernelCache:
    """Compiled kernels in a folder, a file each, named by the content key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False

    def path(self, key: str) -> Path:
        """Where the kernel of this key is or would be."""
        return self.folder / f"{key}.kernel"

    def get(self, key: str) -> Artefact | None:
        """The stored kernel; None where there is none that can be trusted, or where `OMNIKERNEL_DUMP` wants it compiled."""
        if config.dump() is not None:
            return None
        try:
            data = read_own(self.path(key))
        except OSError:
            return None
        stored, _, packed = data.partition(b"\n")
        if stored != key.encode():  # also an intact kernel under a wrong name
            return None
        try:
            return unpack(packed)
        except CorruptArtefact:
            return None

    def put(self, key: str, artefact: Artefact) -> None:
        """Store the kernel, in place of whatever is there."""
        try:
            write_whole(self.path(key), key.encode() + b"\n" + pack(artefact))
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            advice = "set OMNIKERNEL_CACHE_DIR to a folder of yours to keep compiled kernels"
            warnings.warn(
                f"the kernel cache {self.folder} cannot be written: {error}; {advice}", RuntimeWarning, stacklevel=3
            )


def write_whole(path: Path, data: bytes) -> None:
    """Make or replace a file that its owner alone may read and write; a reader never sees half of it.

    Raises:
        OSError: the folder cannot be made, or not written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file readable and writable by its owner alone.
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name[:16]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_own(path: Path | str) -> bytes:
    """The content of a regular file that only its owner may write, who is this user or root.

    Raises:
        OSError: no such file, or one that others may have written.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid not in (os.geteuid(), 0) or about.st_mode & 0o022:
            raise PermissionError(f"{path} may have been written by another user")
        return file.read()
