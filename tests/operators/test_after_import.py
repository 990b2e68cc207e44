"""Calls that wait for a module: made once, right after its import, also when somebody looked for the module before."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from omnikernel.ops import after_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "waited_for"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return name


def test_once_after_the_import(module: str) -> None:
    calls: list[int] = []
    after_import.when_loaded(module, lambda: calls.append(importlib.import_module(module).value))
    after_import.when_loaded(module, lambda: calls.append(2))
    assert not calls
    importlib.import_module(module)
    assert calls == [1, 2]
    assert not [f for f in sys.meta_path if isinstance(f, after_import._Finder) and f.name == module]


def test_a_look_for_the_module_changes_nothing(module: str) -> None:
    calls: list[int] = []
    after_import.when_loaded(module, lambda: calls.append(1))
    assert importlib.util.find_spec(module) is not None
    assert not calls
    importlib.import_module(module)
    assert calls == [1]


def test_at_once_where_it_is_loaded(module: str) -> None:
    importlib.import_module(module)
    calls: list[int] = []
    after_import.when_loaded(module, lambda: calls.append(1))
    assert calls == [1]


def test_an_operator_declared_twice_before_torch_is_there() -> None:
    pytest.importorskip("torch")
    program = """
import importlib.util
import omnikernel
for _ in range(2):
    @omnikernel.op("tests::twice_before_torch")
    def twice(x: omnikernel.Array) -> omnikernel.Array:
        return omnikernel.zeros_like(x)
assert importlib.util.find_spec("torch")
import torch
assert torch.ops.tests.twice_before_torch(torch.ones(3)).tolist() == [0, 0, 0]
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
