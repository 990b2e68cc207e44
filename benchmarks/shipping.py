"""The demo package's wheel: its size, and how long its first kernel takes in a new process, beside Triton with a warm cache.

Run: python benchmarks/shipping.py [--rounds N]. Processes take turns; times are medians, of the wall clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo_package"
# Neither Triton nor llvmlite is there for the prebuilt kernels.
HIDE = """
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in ("triton", "llvmlite") else super().find_spec(name, path, target)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
PROGRAM = """
import json, time
import numpy, ml_dtypes
sys.path.insert(0, PACKAGE)
x, weight = numpy.ones((16, 1000), numpy.float32), numpy.ones(1000, numpy.float32)
marks = []
def mark():
    marks.append((time.perf_counter(), time.process_time()))
mark()
import demo_kernels
mark()
demo_kernels.rms_norm(x, weight)
mark()
demo_kernels.silu_mul(x, x)
mark()
demo_kernels.rms_norm(x, weight)
mark()
print(json.dumps([[1e3 * (b - a) for a, b in zip(one, two)] for one, two in zip(marks, marks[1:])]))
"""
STEPS = ("import of the package", "its first kernel", "its second kernel", "the first kernel again")


def measured(package: Path, hide: bool, **environment: str) -> list[list[float]]:
    """Milliseconds (wall, processor) of each step, in a new process."""
    program = "import sys\n" + (HIDE if hide else "") + f"PACKAGE = {str(package)!r}\n" + PROGRAM
    env = {**os.environ, "OMNIKERNEL_NUM_THREADS": "1", **environment}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    found: list[list[float]] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="processes of each kind")
    arguments = parser.parse_args()
    from omnikernel.ship import command, wheel

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        os.environ["OMNIKERNEL_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = str(out / "ok"), str(out / "triton")
        shutil.copytree(DEMO, out / "project")  # a build leaves files in the project
        small = wheel.build(out / "project", out / "cpu_only", gpu=())
        print(command.described(small))
        with zipfile.ZipFile(small.path) as archive:
            archive.extractall(out / "installed")
        kinds = {
            "prebuilt, without Triton": (out / "installed", True, {}),
            "by Triton, from its cache": (out / "installed", False, {"OMNIKERNEL_SHIPPED": "none"}),
        }
        for where, hide, environment in kinds.values():  # files are read once, caches are filled
            measured(where, hide, **environment)
        found: dict[str, list[list[list[float]]]] = {name: [] for name in kinds}
        for _ in range(arguments.rounds):
            for name, (where, hide, environment) in kinds.items():
                found[name].append(measured(where, hide, **environment))
    for name, runs in found.items():
        print(f"{name} (ms, wall / processor, medians of {arguments.rounds} processes)")
        for index, step in enumerate(STEPS):
            wall, cpu = (statistics.median(run[index][kind] for run in runs) for kind in (0, 1))
            print(f"  {step}: {wall:.2f} / {cpu:.2f}")


if __name__ == "__main__":
    main()
