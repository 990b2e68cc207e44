"""Triton's key of its own installation is kept, and made anew where a file of it changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnikernel.backend import release
from omnikernel.backend.hooks import wrap

Keys = Callable[[], str]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What stands for `triton.runtime.cache`: its key is a number, which counts how often it was made."""
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(tmp_path / "ours"))
    for name in ("runtime/cache.py", "compiler/compiler.py", "language/extra/cuda/utils.py", "_C/libtriton.so"):
        file = tmp_path / "triton" / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    return SimpleNamespace(__file__=str(tmp_path / "triton/runtime/cache.py"), __version__="3.7.1", made=0)


def key(cache: SimpleNamespace) -> str:
    """The key in a new process."""

    def triton_key() -> str:
        cache.made += 1
        return f"key {cache.made}"

    cache.triton_key = triton_key
    release.install(cache, wrap)
    assert cache.triton_key() == cache.triton_key()
    return str(cache.triton_key())


def test_it_is_made_once(installed: SimpleNamespace) -> None:
    assert [key(installed), key(installed)] == ["key 1", "key 1"]


@pytest.mark.parametrize("name", ["runtime/cache.py", "language/extra/cuda/utils.py", "_C/libtriton.so"])
def test_a_changed_file(installed: SimpleNamespace, tmp_path: Path, name: str) -> None:
    file = tmp_path / "triton" / name
    before = file.stat()
    assert key(installed) == "key 1"
    file.write_text(name[::-1])  # of the same size, and of the same time as before
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert [key(installed), key(installed)] == ["key 2", "key 2"]


def test_another_file_or_version(installed: SimpleNamespace, tmp_path: Path) -> None:
    assert key(installed) == "key 1"
    (tmp_path / "triton/compiler/new.py").write_text("")
    assert key(installed) == "key 2"
    installed.__version__ = "3.8.0"
    assert key(installed) == "key 3"


def test_a_damaged_file(installed: SimpleNamespace, tmp_path: Path) -> None:
    assert key(installed) == "key 1"
    (file,) = (tmp_path / "ours").rglob("*.release")
    file.write_bytes(file.read_bytes() + b"0")
    assert [key(installed), key(installed)] == ["key 2", "key 2"]


def test_the_key_of_this_triton() -> None:
    from triton.runtime import cache

    assert cache.triton_key() == cache.triton_key.__wrapped__()
