"""Levels of a processor for which code is prebuilt, and which of them this one has.

The x86-64 levels are those of the psABI: `x86-64` is every processor, `x86-64-v3` has AVX2, `x86-64-v4` has AVX-512. Compilers
know them by these names.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .. import config
from ..errors import OptionValueError


@dataclass(frozen=True, slots=True)
class Level:
    """One level. `needs` are the flags of /proc/cpuinfo that it stands for, `features` LLVM's names of the same."""

    name: str
    machine: str
    triple: str
    cpu: str
    needs: frozenset[str]
    features: frozenset[str]


_V1 = frozenset({"sse", "sse2", "cx8", "fxsr", "mmx", "64bit", "cmov"})
_V3 = _V1 | {
    *("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_V3_FLAGS = frozenset(
    [
        "cx16",
        "lahf_lm",
        "popcnt",
        "pni",
        "ssse3",
        "sse4_1",
        "sse4_2",
        "avx",
        "avx2",
        "bmi1",
        "bmi2",
        "f16c",
        "fma",
        "abm",
        "movbe",
        "xsave",
    ]
)
_V4_FLAGS = _V3_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LINUX = "x86_64-unknown-linux-gnu"

# From the least to the most of a machine.
LEVELS = (
    Level("x86-64", "x86_64", _LINUX, "x86-64", frozenset(), _V1),
    Level("x86-64-v3", "x86_64", _LINUX, "x86-64-v3", _V3_FLAGS, _V3),
    Level("x86-64-v4", "x86_64", _LINUX, "x86-64-v4", _V4_FLAGS, _V4),
    Level("aarch64", "aarch64", "aarch64-unknown-linux-gnu", "generic", frozenset(), frozenset({"neon", "fp-armv8"})),
)
BY_NAME = {level.name: level for level in LEVELS}
DEFAULT = ("x86-64", "x86-64-v3", "x86-64-v4")


def flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the operating system lets programs use of the processor; empty where that is not known."""
    try:
        with cpuinfo.open() as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def available(machine: str, has: frozenset[str]) -> tuple[str, ...]:
    """The levels of a machine with these flags, the best first."""
    return tuple(level.name for level in reversed(LEVELS) if level.machine == machine and level.needs <= has)


@cache
def _host() -> tuple[str, ...]:
    return available(platform.machine(), flags())


def usable() -> tuple[str, ...]:
    """The levels to look for, the best first: those of this processor, from the one that `OMNIKERNEL_SHIPPED` names on.

    Raises:
        OptionValueError: the variable names none, or one that this processor does not have.
    """
    wanted = config.shipped()
    if wanted in ("", config.SHIPPED_NONE):
        return _host()
    if wanted not in _host():
        raise OptionValueError(
            f"OMNIKERNEL_SHIPPED={wanted}: expected {config.SHIPPED_NONE} or a level of this processor "
            f"({', '.join(_host()) or 'it has none'})"
        )
    return _host()[_host().index(wanted) :]


def known(names: Sequence[str]) -> tuple[Level, ...]:
    """The levels of these names, in their order.

    Raises:
        OptionValueError: there is no such level.
    """
    for name in names:
        if name not in BY_NAME:
            raise OptionValueError(f"expected a processor level, one of {', '.join(BY_NAME)}, got {name!r}")
    return tuple(level for level in LEVELS if level.name in names)
