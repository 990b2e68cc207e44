"""Reads of Triton's cache folder that survive damage: a broken entry of ours is as good as none.

So is a whole one while `OMNIKERNEL_DUMP` asks for the stages of compilation: what is not compiled has none.

Triton writes each file of an entry atomically and the list of files last, so a process killed while compiling leaves
nothing that is taken for an entry. What is left is damage from outside: a full disk, a bad copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import config


def checked_manager(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Triton's `get_cache_manager`."""

    def get_cache_manager(key: str) -> Any:
        return _Checked(stock(key))

    return get_cache_manager


class _Checked:
    """A cache manager of Triton's whose `get_group` answers None for damaged entries of backend `cpu`."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def get_group(self, filename: str) -> Any:
        try:
            group = self._manager.get_group(filename)
        except Exception:
            if self._holds_ours():
                return None
            raise
        if group is None or _is_damaged(group, filename):
            return None
        return None if config.dump() is not None and _is_ours(group) else group

    def _holds_ours(self) -> bool:
        folder = getattr(self._manager, "cache_dir", None)
        return folder is not None and any(name.endswith(".so") for name in os.listdir(folder))


def _is_ours(group: dict[str, str]) -> bool:
    """No other backend has a binary `.so`."""
    return any(name.endswith((".so", ".ttir")) for name in group) and not any(
        name.endswith((".cubin", ".hsaco", ".ttgir")) for name in group
    )


def _is_damaged(group: dict[str, str], filename: str) -> bool:
    """An entry of ours that a launch could not use."""
    binary = filename.removesuffix(".json") + ".so"
    if not _is_ours(group):
        return False
    from ..runtime import cache

    try:
        metadata = json.loads(Path(group[filename]).read_text())
        if metadata["target"]["backend"] != "cpu":
            return False
        for name, path in group.items():
            if not name.endswith((".so", ".json")):
                Path(path).read_text()
        cache.unpack(Path(group[binary]).read_bytes())
    except Exception:
        # Whatever is wrong with the entry, the remedy is the same: compile again, which replaces it.
        return True
    return False
