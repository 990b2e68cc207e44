"""A small package of kernels, written to a folder, built for this processor, and used in this process or another."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnikernel.ship import project

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo_package"
NAME = "small_package"
LEVELS = ("x86-64", "x86-64-v3")

KERNELS = """
import omnikernel
import triton
import triton.language as tl

IMPORTED = True


@omnikernel.prebuild("*fp32, *fp32, i32, fp32", "*fp32, *fp32, i32:1, fp32", constants=[{"BLOCK": 64}, {"BLOCK": 128}])
@triton.jit
def scale(x_ptr, out_ptr, step, factor, BLOCK: tl.constexpr, ADD: tl.constexpr = 0):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * step) * factor + ADD)


@omnikernel.prebuild("*i32, i32", constants={"BLOCK": 64})
@triton.jit
def positive(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1)
    tl.device_assert(x > 0, "not positive")
    tl.store(x_ptr + i, x + 1, mask=i < n)


@triton.jit
def undeclared(x_ptr):
    tl.store(x_ptr, 1.0)
"""
SOURCE = """
#include <omnikernel.h>
void twice(ok::View<const float, 1> x, ok::View<float, 1> out) {
  ok::parallel_for(0, x.size(0), 100, [&](int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) out[i] = 2.f * x[i];
  });
}
"""
NATIVE = """
from pathlib import Path
import omnikernel
native = omnikernel.load("native", Path(__file__).with_name("twice.cpp"))
"""
# Triton, llvmlite and the compilers are not there for what follows.
BARE = """
import os, sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in HIDDEN else super().find_spec(name, path, target)
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
os.environ["PATH"], os.environ["CXX"] = "/nowhere", "/bin/false"
"""


def write_package(folder: Path, name: str) -> Path:
    """A package with Triton kernels and a C++ function; the folder to import it from."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(KERNELS)
    (package / "native.py").write_text(NATIVE)
    (package / "twice.cpp").write_text(SOURCE)
    return folder


def build(folder: Path, name: str, cpu: tuple[str, ...] = LEVELS) -> project.Built:
    """Build it."""
    return project.build(folder, project.Settings((f"{name}.kernels", f"{name}.native"), cpu))


@contextmanager
def importable(folder: Path, name: str) -> Iterator[None]:
    """The package can be imported meanwhile, and is forgotten afterwards."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for module in [m for m in sys.modules if m.partition(".")[0] == name]:
            del sys.modules[module]


def bare(
    program: str, *folders: Path, hidden: tuple[str, ...] = ("triton", "llvmlite", "torch", "jax")
) -> subprocess.CompletedProcess[str]:
    """Run a program where there is neither Triton nor llvmlite nor a compiler."""
    paths = "".join(f"sys.path.insert(0, {str(folder)!r})\n" for folder in folders)
    command = [sys.executable, "-c", f"HIDDEN = {hidden!r}\n" + BARE + paths + program]
    return subprocess.run(command, capture_output=True, text=True, check=False)
