"""The benchmark is a script beside its modules, not a package: its folder goes on the path, as `python FILE` does it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
