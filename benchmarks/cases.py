"""All rows of the benchmark, by a short name. Each is made when its turn comes, so that memory is not held for all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from suite import elementwise, others, products, reductions
from suite.row import Row


def makers(scale: str) -> dict[str, Callable[[], Row]]:
    """Short name -> what makes the row; `scale` is "full", "quick" or "tiny"."""
    found: dict[str, Callable[[], Row]] = {}
    for family in (elementwise, reductions, products, others):
        found.update(family.makers(scale))
    return found
