"""The benchmark is a script beside its modules, not a package: its folder goes on the path.

At the end of it: `operators` is a module there, and a package of the examples that other tests import.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
