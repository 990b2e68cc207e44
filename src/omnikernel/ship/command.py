"""`omnikernel build`: what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .package import FOLDER, MANIFEST
from .wheel import Wheel, build


def run(source: Path, out: Path, cpu: Sequence[str] | None, gpu: Sequence[str] | None) -> str:
    """Build a project's wheel; the text says what is in it.

    Raises:
        OmnikernelError: it could not be built.
    """
    return described(build(source, out, cpu or None, () if gpu == ["none"] else gpu or None))


def described(wheel: Wheel) -> str:
    """A wheel in words: its size, and for each processor level and GPU architecture the number and size of its files."""
    lines = [f"{wheel.path}: {wheel.path.stat().st_size / 1024:.0f} KiB"]
    groups: dict[str, list[int]] = {}
    for name, size in wheel.files.items():
        inside = name.partition(f"/{FOLDER}/")[2]
        if inside != MANIFEST:
            groups.setdefault(inside.partition("/")[0], []).append(size)
    for name, sizes in sorted(groups.items()):
        lines.append(f"  {name}: {len(sizes)} files, {sum(sizes) / 1024:.0f} KiB unpacked")
    return "\n".join(lines)
