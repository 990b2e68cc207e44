"""The small package, built once; a copy for each test that changes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import shipping
from shipping import NAME

from omnikernel.ship import levels


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "x86-64-v3" not in levels.usable():
        pytest.skip("needs a processor with AVX2")
    folder = shipping.write_package(tmp_path_factory.mktemp("ship"), NAME)
    shipping.build(folder, NAME)
    return folder


@pytest.fixture
def package(built_once: Path, tmp_path: Path) -> Iterator[Path]:
    """The folder `_omnikernel` of a copy that can be imported as `small_package`."""
    folder = tmp_path / "installed"
    shutil.copytree(built_once, folder, ignore=shutil.ignore_patterns("__pycache__"))
    with shipping.importable(folder, NAME):
        yield folder / NAME / "_omnikernel"
