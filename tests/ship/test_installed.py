"""The demo package in a new environment: its wheel and ours, NumPy, and neither Triton, LLVM nor a compiler."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import shipping

from omnikernel.ship import wheel

pytestmark = pytest.mark.slow

LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4")


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a command that must succeed; what it printed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | environment
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own wheel, from a copy of the sources: building writes beside them."""
    folder = tmp_path_factory.mktemp("ours")
    for name in ("src", "pyproject.toml", "setup.py", "README.md", "LICENSE"):
        path = shipping.ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "*.so", "__pycache__"))
        else:
            shutil.copy(path, folder)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder / "dist", folder)
    return next((folder / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(
        shipping.DEMO, folder / "project", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    return folder / "project"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, ours: Path) -> Path:
    """An environment with NumPy, ml_dtypes and us, which needs no network: the two are copied from this one."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    found = folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in ("numpy", "ml_dtypes"):
        for file in importlib.metadata.distribution(name).files or ():
            source, target = Path(str(file.locate())), site / file
            if ".." not in file.parts and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
    run(found, "-m", "pip", "install", "--no-deps", "--no-index", ours)
    return found


def test_its_tests_pass_where_there_is_neither_triton_nor_llvm_nor_a_compiler(
    demo: Path, python: Path, tmp_path: Path
) -> None:
    made = wheel.build(demo, tmp_path / "dist", cpu=LEVELS, gpu=("sm_90",))
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--force-reinstall", made.path)
    assert {Path(name).parts[2] for name in made.files} == {*LEVELS, "sm_90", "manifest.json"}
    bare = {
        "PATH": str(python.parent),
        "CC": "/bin/false",
        "CXX": "/bin/false",
        "OMNIKERNEL_CACHE_DIR": str(tmp_path / "none"),
    }
    listed = run(python, "-m", "pip", "list", **bare)
    assert "triton" not in listed and "llvmlite" not in listed
    tests = ("-m", "unittest", "discover", "-s", demo / "tests")
    for level in ("", "x86-64"):
        said = run(python, "-W", "error", *tests, cwd=tmp_path, OMNIKERNEL_SHIPPED=level, **bare)
        assert "Ran 5 tests" in said and "OK" in said
    assert not (tmp_path / "none").exists(), "something was compiled"


def test_the_hook_of_setuptools_builds_the_same_files(demo: Path, ours: Path, tmp_path: Path) -> None:
    installed = tmp_path / "ours"
    with zipfile.ZipFile(ours) as archive:
        archive.extractall(installed)
    command = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, demo)
    run(*command, PYTHONPATH=str(installed))
    (made,) = tmp_path.glob("demo_kernels-*.whl")
    assert "-py3-none-manylinux_2_" in made.name or made.name.endswith("-py3-none-linux_x86_64.whl")
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
    assert not [name for name in names if name.endswith(".pyc")]
    for level in LEVELS:
        assert f"demo_kernels/_omnikernel/{level}/kernels.rms_norm.so" in names
        assert f"demo_kernels/_omnikernel/{level}/demo_interpolate.cpp.so" in names
    assert "demo_kernels/_omnikernel/sm_90/kernels.silu_mul.0.cubin" in names
    assert "demo_kernels/_omnikernel/sm_80/kernels.silu_mul.0.ptx" in names


def test_in_a_checkout_its_tests_pass_too(demo: Path) -> None:
    run(sys.executable, "-m", "unittest", "discover", "-s", demo / "tests", PYTHONPATH=str(demo / "src"))
