"""What works here, and why not where it does not: the facts behind `omnikernel info`.

In: this process and its environment. Out: rows of text. Nothing here imports torch or jax, starts a thread or
compiles a kernel; versions come from the installed packages' metadata.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from . import __version__, config

State = Literal["ok", "note", "bad"]

# The Triton that each torch release pins (its own requirement; CPU builds of torch do not carry it).
TORCH_PAIRS = {"2.11": "3.6.0", "2.12": "3.7.1", "2.13": "3.7.1", "2.14": "3.8"}

# The features that change the code which is generated here, most telling first.
_X86 = ("avx512f", "avx512bf16", "avx512fp16", "amx-bf16", "avx2", "fma", "f16c", "avx", "sse4.2")
_ARM = ("sve", "bf16", "fullfp16", "neon")


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the report: what was looked at, what was found, and whether it is in order."""

    name: str
    found: str
    state: State = "ok"


def installed(package: str) -> str | None:
    """The version of an installed package, without importing it; None where it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _starts(version: str, prefix: str) -> bool:
    return version == prefix or version.startswith((prefix + ".", prefix + "+"))


def pair_fact(torch: str | None, triton: str | None) -> Fact:
    """Whether torch's Inductor was made for this Triton. Plain launches do not depend on it; `torch.compile` does."""
    if torch is None or triton is None:
        return Fact(
            "torch and Triton", "torch is not installed; launches on NumPy and JAX arrays do not need it", "note"
        )
    wanted = TORCH_PAIRS.get(".".join(torch.split("+")[0].split(".")[:2]))
    if wanted is None:
        return Fact("torch and Triton", f"torch {torch} is not a release this version knows (2.11 to 2.14)", "note")
    if _starts(triton, wanted):
        return Fact("torch and Triton", f"torch {torch} is made for Triton {wanted}: they match")
    return Fact(
        "torch and Triton",
        f"torch {torch} is made for Triton {wanted}, and {triton} is installed: launches work, torch.compile may fail; "
        f"pip install triton=={wanted}",
        "bad",
    )


def _platform() -> Iterator[Fact]:
    yield Fact("omnikernel", __version__)
    system, machine = platform.system(), platform.machine()
    known = system == "Linux" and machine in ("x86_64", "aarch64")
    tested = "" if machine == "x86_64" else " (by construction: not tested on real machines)"
    reason = tested if known else ": not supported; Triton has wheels for Linux on x86-64 and aarch64 only"
    yield Fact("platform", f"{system} {machine}{reason}", ("note" if tested else "ok") if known else "bad")
    version = ".".join(map(str, sys.version_info[:3]))
    yield Fact("Python", version, "ok" if sys.version_info >= (3, 11) else "bad")


def _processor() -> Iterator[Fact]:
    from .llvm import jit

    target = jit.host_target()
    used = [f for f in (*_X86, *_ARM) if f in target.features]
    yield Fact("processor", f"{target.cpu}: {', '.join(used) or 'no vector features found'}")
    yield Fact("LLVM", jit.llvm_version())


def _versions() -> Iterator[Fact]:
    for package in ("triton", "numpy", "ml_dtypes"):
        version = installed(package)
        yield Fact(package, version or "missing: pip install omnikernel brings it", "ok" if version else "bad")
    for package in ("torch", "jax"):
        version = installed(package)
        yield Fact(package, version or "not installed (optional)", "ok" if version else "note")
    triton = installed("triton") or ""
    if triton and not any(_starts(triton, known) for known in ("3.6", "3.7", "3.8", "3.9")):
        yield Fact("Triton's version", f"{triton} is outside 3.6 to 3.9, which this version knows", "bad")
    yield pair_fact(installed("torch"), triton or None)


def _backend() -> Iterator[Fact]:
    if os.environ.get("TRITON_BACKENDS_IN_TREE") == "1":
        yield Fact("backend", "hidden: TRITON_BACKENDS_IN_TREE=1 makes Triton skip installed backends; unset it", "bad")
        return
    from triton.backends import backends

    ours = backends.get("cpu")
    if ours is None:
        points = importlib.metadata.entry_points(group="triton.backends")
        seen = ", ".join(sorted(p.name for p in points)) or "none"
        yield Fact("backend", f"Triton does not see `cpu` (entry points: {seen}); install the package again", "bad")
        return
    owner = ours.driver.__module__
    if not owner.startswith("omnikernel"):
        yield Fact("backend", f"another package provides the backend `cpu`: {owner}; uninstall one of the two", "bad")
        return
    for needed in ("llvmlite.binding", "omnikernel.pipeline", "omnikernel.runtime.launch"):
        importlib.import_module(needed)  # what fails here is why the backend is not active
    from triton.runtime import driver

    active = driver.active.get_current_target().backend  # asking each backend whether it is active would import torch
    chosen = os.environ.get("TRITON_DEFAULT_BACKEND")
    found = f"`cpu` is seen by Triton; active: {active}" + (f", TRITON_DEFAULT_BACKEND={chosen}" if chosen else "")
    yield Fact("backend", found + ("" if active == "cpu" else "; arrays on the CPU go to `cpu` all the same"))


def _runtime() -> Iterator[Fact]:
    from .runtime import pool

    yield Fact("threads", str(pool.get_num_threads()))


def _native() -> Iterator[Fact]:
    if not config.native_allowed():
        yield Fact("C extension", "turned off by OMNIKERNEL_NO_NATIVE: launches work, and take longer to start", "note")
    elif importlib.util.find_spec("omnikernel._native") is None:
        yield Fact("C extension", "not built (no C compiler at installation?): launches take longer to start", "note")
    else:
        importlib.import_module("omnikernel._native")
        yield Fact("C extension", "present")


def _cache() -> Iterator[Fact]:
    folder = config.cache_dir()
    if not folder.exists():
        yield Fact("cache", f"{folder} (empty)")
        return
    files = [p for p in folder.rglob("*") if p.is_file()]
    size = sum(p.stat().st_size for p in files)
    writable = os.access(folder, os.W_OK)
    text = f"{folder}: {len(files)} files, {size / 2**20:.1f} MiB"
    yield Fact(
        "cache", text if writable else text + ", not writable: every process compiles anew", "ok" if writable else "bad"
    )


def _modes() -> Iterator[Fact]:
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y"):
        yield Fact(
            "TRITON_INTERPRET",
            "on: kernels run in Triton's interpreter, hundreds of times slower than compiled",
            "note",
        )
    else:
        yield Fact("TRITON_INTERPRET", "off: kernels are compiled")
    for name in ("OMNIKERNEL_REFERENCE", "OMNIKERNEL_CHECK", "OMNIKERNEL_DUMP", "OMNIKERNEL_NUM_THREADS"):
        if os.environ.get(name):
            yield Fact(name, os.environ[name], "note")


_SECTIONS: tuple[tuple[str, Callable[[], Iterator[Fact]]], ...] = (
    ("platform", _platform),
    ("processor", _processor),
    ("versions", _versions),
    ("backend", _backend),
    ("threads", _runtime),
    ("C extension", _native),
    ("cache", _cache),
    ("modes", _modes),
)


def facts() -> list[Fact]:
    """Everything worth knowing about this installation, in the order in which it matters.

    A part that fails is itself a finding, so its error becomes a row: the report must come out on a broken
    installation, since that is when it is read.
    """
    found: list[Fact] = []
    for name, section in _SECTIONS:
        try:
            found += section()
        except Exception as error:
            found.append(Fact(name, f"{type(error).__name__}: {error}", "bad"))
    return found
