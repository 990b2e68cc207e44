"""Every environment variable that the package reads, documented here and read nowhere else.

| variable | meaning |
|---|---|
| OMNIKERNEL_CACHE_DIR | where compiled kernels are kept (default: the user's cache folder) |
| OMNIKERNEL_NUM_THREADS | threads a launch may use (default: what affinity and the cgroup allow) |
| OMNIKERNEL_REFERENCE | 1: run every launch on the NumPy reference instead of compiled code |
| OMNIKERNEL_CHECK | 1: checked mode |
| OMNIKERNEL_DUMP | stages to write out: `ttir,tile,llvm,asm`, with `:kernel` for one kernel only |
| OMNIKERNEL_DUMP_DIR | folder for the dumps (default: standard error) |
| OMNIKERNEL_NO_NATIVE | 1: do not use the C extension |
| OMNIKERNEL_SHIPPED | prebuilt code of installed packages: `none`, or the processor level to use (default: the best there is) |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SHIPPED_NONE = "none"


@dataclass(frozen=True, slots=True)
class Dump:
    """Which stages to write out, for which kernel ("" for all), and where (None: standard error)."""

    stages: frozenset[str]
    kernel: str
    folder: Path | None


def _flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in ("1", "true", "on", "yes")


def reference() -> bool:
    """Run launches by `reference/`."""
    return _flag("OMNIKERNEL_REFERENCE")


def check() -> bool:
    """Checked mode is asked for."""
    return _flag("OMNIKERNEL_CHECK")


def native_allowed() -> bool:
    """The C extension may be used."""
    return not _flag("OMNIKERNEL_NO_NATIVE")


def shipped() -> str:
    """Which prebuilt code to use: a processor level, `SHIPPED_NONE`, or "" for the best that fits."""
    return os.environ.get("OMNIKERNEL_SHIPPED", "").strip()


def num_threads() -> int | None:
    """The number of threads asked for by the environment, if any."""
    text = os.environ.get("OMNIKERNEL_NUM_THREADS", "").strip()
    return max(1, int(text)) if text.isdigit() else None


def cache_dir() -> Path:
    """The folder of the kernel cache (not created here)."""
    named = os.environ.get("OMNIKERNEL_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "omnikernel"


def dump() -> Dump | None:
    """What `OMNIKERNEL_DUMP` asks for."""
    text = os.environ.get("OMNIKERNEL_DUMP", "").strip()
    if not text:
        return None
    stages, _, kernel = text.partition(":")
    folder = os.environ.get("OMNIKERNEL_DUMP_DIR")
    return Dump(frozenset(s.strip() for s in stages.split(",") if s.strip()), kernel, Path(folder) if folder else None)
