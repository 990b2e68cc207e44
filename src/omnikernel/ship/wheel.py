"""Wheels with prebuilt files: what platform they are for, and how a plain wheel becomes one.

In: a project, or a wheel that its build backend made. Out: a wheel that also has `PACKAGE/_omnikernel/`, tagged for the platform
that the files need. Any backend may have made the wheel.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..cpp.toolchain import BuildError
from ..elf import needed_libraries
from . import levels, project
from .package import FOLDER, MANIFEST

# What every Linux of a manylinux tag has; a library that needs others is for this system alone (PEP 600).
_EVERYWHERE = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "ld-linux")
_OLDEST = (2, 17)


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that was made, and what is prebuilt in it: the size of each file."""

    path: Path
    files: dict[str, int]


def build(source: Path, out: Path, cpu: Sequence[str] | None = None, gpu: Sequence[str] | None = None) -> Wheel:
    """Build the wheel of a project.

    Args:
        source: the folder with pyproject.toml.
        out: where the wheel goes.
        cpu: processor levels; None: those that the project names.
        gpu: GPU architectures, perhaps none; None: those that the project names.

    Raises:
        OmnikernelError: the project has no `[tool.omnikernel]`, or something does not build.
    """
    wanted = project.settings(source / "pyproject.toml")
    if wanted is None:
        raise BuildError(
            f'{source / "pyproject.toml"} has no [tool.omnikernel]; add it, with modules = ["mypackage.kernels"]'
        )
    changed = replace(
        wanted, cpu=wanted.cpu if cpu is None else tuple(cpu), gpu=wanted.gpu if gpu is None else tuple(gpu)
    )
    changed = project.checked(changed, "omnikernel build")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = _by_backend(source, Path(folder))
        with zipfile.ZipFile(made) as archive:
            ready = changed == wanted and f"{wanted.package}/{FOLDER}/{MANIFEST}" in archive.namelist()
        path = _with_files(made, None if ready else changed, Path(folder, "content"), out)
    with zipfile.ZipFile(path) as archive:
        inside = {i.filename: i.file_size for i in archive.infolist() if f"/{FOLDER}/" in i.filename}
    return Wheel(path, inside)


def _by_backend(source: Path, folder: Path) -> Path:
    """The wheel as the project's own backend makes it, in this environment: it is this one's compilers that count."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(folder)]
    run = subprocess.run([*command, str(source.resolve())], capture_output=True, text=True, check=False)
    if run.returncode:
        raise BuildError(f"{source}: its build backend failed:\n{run.stderr.strip() or run.stdout.strip()}")
    return next(folder.glob("*.whl"))


def _with_files(made: Path, wanted: project.Settings | None, content: Path, out: Path) -> Path:
    """The wheel with what is prebuilt put in; for None that is done, and it is only packed as any other."""
    with zipfile.ZipFile(made) as archive:
        archive.extractall(content)
    info = next(content.glob("*.dist-info"))
    if wanted is None:
        _write(content, info, out / made.name)
        return out / made.name
    project.build(content, wanted)
    name, version, *_ = made.stem.split("-")
    tag = f"py3-none-{platform_tag(wanted.cpu, content)}"
    about = (info / "WHEEL").read_text()
    about = re.sub(r"^Tag: .*\n", "", about, flags=re.MULTILINE).replace(
        "Root-Is-Purelib: true", "Root-Is-Purelib: false"
    )
    (info / "WHEEL").write_text(about.rstrip("\n") + f"\nTag: {tag}\n")
    path = out / f"{name}-{version}-{tag}.whl"
    _write(content, info, path)
    return path


def _write(content: Path, info: Path, path: Path) -> None:
    """Zip a folder, with its RECORD written anew; equal content gives equal bytes."""
    record = info / "RECORD"
    files = sorted(p for p in content.rglob("*") if p.is_file() and p != record and "__pycache__" not in p.parts)
    lines = []
    for file in files:
        data = file.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{file.relative_to(content).as_posix()},sha256={digest},{len(data)}")
    record.write_text("\n".join([*lines, f"{record.relative_to(content).as_posix()},,"]) + "\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in [*files, record]:
            entry = zipfile.ZipInfo(file.relative_to(content).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())


def platform_tag(cpu: Sequence[str], content: Path) -> str:
    """The platform that a wheel's prebuilt files need: manylinux by the C library's versions that they use, where they can.

    Args:
        cpu: the levels that were built.
        content: a folder with the files.
    """
    machine = levels.known(cpu)[0].machine
    libraries = [path.read_bytes() for path in content.rglob(f"{FOLDER}/**/*.so")]
    if any(not name.startswith(_EVERYWHERE) for data in libraries for name in needed_libraries(data)):
        return f"linux_{machine}"
    used = (
        (int(major), int(minor)) for data in libraries for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", data)
    )
    major, minor = max([_OLDEST, *used])
    return f"manylinux_{major}_{minor}_{machine}"
