"""The prebuilt files of an installed package: its manifest, read and verified, and the files that it names.

In: the folder of a Python package. Out: a `Shipped` whose kernels and libraries can be asked for, or a reason why not. A
file is used only where it has the size and the hash that the manifest states, and the manifest only where it has its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CorruptArtefact, ShippedError

FOLDER = "_omnikernel"
MANIFEST = "manifest.json"
FORMAT = 1  # of the manifest's text
# How a launch calls what was built: entries of Triton kernels (`artefact.Artefact`, `omnikernel_shipped.h`), entries and reports of
# C++ libraries (`cpp/entries.py`, `cpp/library.py`). A change of any of them is another number.
ABI = 1


@dataclass(frozen=True, slots=True)
class Shipped:
    """The prebuilt files of one package. `content` is the manifest."""

    folder: Path
    content: Mapping[str, Any]

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return str(self.content["package"])

    def kernels(self, module: str) -> Mapping[str, Any]:
        """The Triton kernels of a module, by name; empty where it has none."""
        found: Mapping[str, Any] = self.content["kernels"].get(module, {})
        return found

    def path(self, name: str) -> Path:
        """A file, after a look at its content.

        Raises:
            CorruptArtefact: it is missing, or not what the manifest says.
        """
        self.read(name)
        return self.folder / name

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            CorruptArtefact: it is missing, or not what the manifest says.
        """
        stated = self.content["files"][name]
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise CorruptArtefact(f"{self._where(name)} cannot be read: {error}; {self._advice}") from error
        if len(data) != stated["bytes"]:
            raise CorruptArtefact(
                f"{self._where(name)} has {len(data)} bytes, but {stated['bytes']} when it was built: it is not used; "
                f"{self._advice}"
            )
        if hashlib.sha256(data).hexdigest() != stated["sha256"]:
            raise CorruptArtefact(
                f"{self._where(name)} was altered after it was built (its SHA-256 is not that in the manifest): it is not "
                f"used; {self._advice}"
            )
        return data

    def source_changed(self, module: str, path: str | None) -> str | None:
        """Why the prebuilt kernels are not those of the module's present source; None where they are."""
        stated = self.content["sources"].get(module)
        if stated is None or path is None:
            return None
        try:
            data = Path(path).read_bytes()
        except OSError:  # installed without sources
            return None
        if hashlib.sha256(data).hexdigest() == stated:
            return None
        return f"{path} has changed since its kernels were built"

    def _where(self, name: str) -> str:
        return f"package {self.package!r}: the prebuilt file {self.folder / name}"

    @property
    def _advice(self) -> str:
        return f"install the package {self.package!r} again"


class Unfit(ShippedError):
    """A manifest of another format or ABI than this version uses."""


def read(folder: Path) -> Shipped:
    """The prebuilt files in a folder `_omnikernel`.

    Raises:
        CorruptArtefact: the manifest is damaged.
        Unfit: it was made for another version.
    """
    path = folder / MANIFEST
    try:
        whole = json.loads(path.read_bytes())
        stated, content = whole["sha256"], whole["content"]
        form, abi, package = content["format"], content["abi"], content["package"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptArtefact(f"the manifest {path} cannot be read: {error!r}; install its package again") from error
    made = f"package {package!r} was built by omnikernel {content.get('omnikernel', '?')}"
    if (form, abi) != (FORMAT, ABI):
        raise Unfit(
            f"{made} with manifest format {form} and ABI {abi}; this omnikernel reads format {FORMAT} and ABI {ABI}; "
            "install versions of both that belong together"
        )
    if digest(content) != stated:
        raise CorruptArtefact(
            f"package {package!r}: the manifest {path} was altered after it was built; install the package again"
        )
    return Shipped(folder, content)


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write a manifest."""
    whole = {"sha256": digest(content), "content": content}
    (folder / MANIFEST).write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")


def digest(content: Mapping[str, Any]) -> str:
    """The hash of a manifest's content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def enclosing(path: Path) -> Iterator[Path]:
    """The folders of prebuilt files of the packages around a file, from the inside out."""
    for parent in path.parents:
        if not (parent / "__init__.py").exists():
            return
        if (parent / FOLDER / MANIFEST).exists():
            yield parent / FOLDER
