"""How many CPUs this process may use, for the threads of launches and of compilation, and what caches they have."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path


def available_threads(proc: Path = Path("/proc"), control: Path = Path("/sys/fs/cgroup")) -> int:
    """CPUs that this process may use: its affinity, and the CPU quota of its control groups, rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = cgroup_quota(proc, control)
    return max(1, cpus if quota is None else min(cpus, ceil(quota)))


def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> list[int]:
    """Bytes of the caches that hold data, from the first to the last, as Linux tells them; none where it does not.

    Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    found: dict[int, int] = {}
    for cache in sorted(folder.glob("index*")):
        level, kind, size = (_read(cache / name).strip() for name in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and size[:-1].isdigit() and size[-1] in _UNITS:
            found[int(level)] = int(size[:-1]) * _UNITS[size[-1]]
    return [found[level] for level in sorted(found)]


_UNITS = {"K": 1 << 10, "M": 1 << 20}


def cgroup_quota(proc: Path, control: Path) -> float | None:
    """The smallest CPU quota among this process's control groups and their parents, in CPUs; None for no limit.

    Source: the kernel's documentation of `cpu.max` (cgroup v2) and `cpu.cfs_quota_us` (v1).
    """
    quotas = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        root = control if number == "0" else control / "cpu"
        inner = Path(path.lstrip("/"))
        for group in (root / inner, *(root / parent for parent in inner.parents)):
            quotas.append(_quota_v2(group) if number == "0" else _quota_v1(group))
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_v2(group: Path) -> float | None:
    words = _read(group / "cpu.max").split()
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():
        return None
    return int(words[0]) / max(1, int(words[1]))


def _quota_v1(group: Path) -> float | None:
    quota, period = _read(group / "cpu.cfs_quota_us").strip(), _read(group / "cpu.cfs_period_us").strip()
    return int(quota) / max(1, int(period)) if quota.isdigit() and period.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
