"""The code in README.md runs, block by block, as a reader would paste it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def run(tmp_path: Path, *blocks: str) -> ModuleType:
    """Run blocks as one module. A file, since Triton reads a kernel's source from where it was defined."""
    path = tmp_path / "readme_code.py"
    path.write_text("\n".join(blocks))
    spec = importlib.util.spec_from_file_location("readme_code", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_five_blocks() -> None:
    words = [next((w for w in ("torch", "jax", "omnikernel.op", "omnikernel.prepare") if w in b), "") for b in BLOCKS]
    assert words == ["", "torch", "jax", "omnikernel.op", "omnikernel.prepare"]


def test_numpy(tmp_path: Path) -> None:
    run(tmp_path, BLOCKS[0])


@pytest.mark.torch
def test_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run(tmp_path, BLOCKS[0], BLOCKS[1])


@pytest.mark.jax
def test_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    module = run(tmp_path, BLOCKS[0], BLOCKS[2])
    assert (module.z == module.x + 1).all()


def test_operator(tmp_path: Path) -> None:
    run(tmp_path, BLOCKS[0], BLOCKS[3])


def test_prepared_launches(tmp_path: Path) -> None:
    run(tmp_path, BLOCKS[0], BLOCKS[3], BLOCKS[4])
