"""The example operators, importable as the package `operators`, and the operators that tests here share."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "examples"), str(Path(__file__).parent)]
