"""Which code of ours generated a kernel: part of every cache key, so that an edited compiler never meets its old output."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from .. import __version__

# The folders whose code decides what a kernel compiles to.
_FOLDERS = ("ir", "ttir", "passes", "lower", "llvm")


@functools.cache
def revision() -> str:
    """Our version and a digest of the compiler's sources."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in [
        package / "artefact.py",
        package / "pipeline.py",
        *(p for folder in _FOLDERS for p in sorted((package / folder).glob("*.py"))),
    ]:
        digest.update(path.name.encode() + path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:16]}"
