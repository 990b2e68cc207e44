"""A launch with nothing but the package's own dependencies: no torch, no jax, no import of ours.

Run in an environment that holds `pip install omnikernel` only. Exit status 0: the results are right.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import softmax
import vector_add
from anyarray import max_error


def main() -> None:
    for package in ("torch", "jax"):
        if importlib.util.find_spec(package):
            sys.exit(f"this environment has {package}; the check is about one that has not")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 37, 301), np.float32)
    for name, error in {
        "vector add": max_error(vector_add.add(x, y), vector_add.reference(x, y)),
        "softmax": max_error(softmax.softmax(x), softmax.reference(x)),
    }.items():
        print(f"{name}: max error {error:.1e}")
        if not error < 1e-6:
            sys.exit(f"{name} is wrong")
    loaded = sorted(sys.modules.keys() & {"torch", "jax"})
    if loaded:
        sys.exit(f"imported without need: {loaded}")


if __name__ == "__main__":
    main()
