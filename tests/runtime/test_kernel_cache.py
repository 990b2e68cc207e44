"""The disk cache: round trips, damage of every kind, several writers, a writer that is killed."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from omnikernel.errors import CorruptArtefact
from omnikernel.ir.types import Pointer, Scalar
from omnikernel.lower.lanes import Target
from omnikernel.pipeline import Artefact, Options, Parameter
from omnikernel.runtime import cache
from omnikernel.runtime.cache import KernelCache

KEY = "a" * 64
ARTEFACT = Artefact(
    name="add",
    object=bytes(range(256)) * 20,
    parameters=(
        Parameter("x", Pointer(Scalar("f8E4M3FN")), read=True),
        Parameter("pp", Pointer(Pointer(Scalar("f32"), 3)), written=True),
        Parameter("n", Scalar("i32")),
    ),
    arena_bytes=4096,
    asserts=("a.py:3: höher",),
    cost=12.5,
    in_order=False,
    texts={"ttir": "module {}\n"},
    options=Options(fp_fusion=False, disjoint=True),
)
TARGET = Target("x86_64-linux", "znver4", frozenset({"avx2", "fma"}))


def test_round_trip() -> None:
    assert cache.unpack(cache.pack(ARTEFACT)) == ARTEFACT


def test_texts_that_no_launch_needs_are_not_stored() -> None:
    compiled = replace(ARTEFACT, texts={**ARTEFACT.texts, "llvm": "define"})
    assert cache.pack(compiled) == cache.pack(ARTEFACT)


@pytest.mark.parametrize("size", [0, 7, 51, 60, 400, len(cache.pack(ARTEFACT)) - 1])
def test_truncated(size: int) -> None:
    with pytest.raises(CorruptArtefact):
        cache.unpack(cache.pack(ARTEFACT)[:size])


def test_any_changed_byte_is_noticed() -> None:
    data = cache.pack(ARTEFACT)
    for at in [*range(0, 120), *range(120, len(data), 97)]:
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(CorruptArtefact):
            cache.unpack(bytes(changed))


def test_a_manifest_of_another_version_is_refused() -> None:
    manifest = json.dumps({**ARTEFACT.manifest, "options": {"new_option": 1}}).encode()
    length = len(manifest).to_bytes(8, "little")
    data = (
        cache._HEADER.pack(cache.MAGIC, cache.FORMAT, hashlib.sha256(length + manifest).digest(), len(manifest))
        + manifest
    )
    with pytest.raises(CorruptArtefact, match="a manifest that this version does not read"):
        cache.unpack(data)


def test_get_and_put(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "new" / "folder")
    assert kernels.get(KEY) is None
    kernels.put(KEY, ARTEFACT)
    assert kernels.get(KEY) == ARTEFACT
    assert KernelCache(kernels.folder).get(KEY) == ARTEFACT
    assert [path.name for path in kernels.folder.iterdir()] == [f"{KEY}.kernel"]  # no temporary file is left
    assert kernels.path(KEY).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "garbage", "renamed", "folder"])
def test_a_broken_entry_is_absent_and_replaced(tmp_path: Path, damage: str) -> None:
    kernels = KernelCache(tmp_path)
    kernels.put(KEY, ARTEFACT)
    path = kernels.path(KEY)
    data = path.read_bytes()
    if damage == "renamed":  # an intact kernel under another kernel's name
        kernels.put("b" * 64, ARTEFACT)
        kernels.path("b" * 64).rename(path)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
        assert kernels.get(KEY) is None
        path.rmdir()
    else:
        path.write_bytes(
            {"empty": b"", "truncated": data[:-100], "flipped": data[:-1] + b"?", "garbage": b"\0" * 5000}[damage]
        )
    assert kernels.get(KEY) is None
    kernels.put(KEY, ARTEFACT)
    assert kernels.get(KEY) == ARTEFACT


def test_files_that_others_may_write_are_not_read(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path)
    kernels.put(KEY, ARTEFACT)
    kernels.path(KEY).chmod(0o666)
    assert kernels.get(KEY) is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_files_of_others_are_not_read(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path)
    kernels.put(KEY, ARTEFACT)
    os.chown(kernels.path(KEY), 12345, 12345)
    assert kernels.get(KEY) is None


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path)
    kernels.put("b" * 64, ARTEFACT)
    kernels.path(KEY).symlink_to(kernels.path("b" * 64))
    assert kernels.get(KEY) is None
    os.mkfifo(kernels.path("c" * 64))
    assert kernels.get("c" * 64) is None  # and does not wait for a writer


def test_a_folder_that_cannot_be_written_warns_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kernels = KernelCache(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match="cannot be written: .*set OMNIKERNEL_CACHE_DIR to a folder of yours"):
        kernels.put(KEY, ARTEFACT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernels.put(KEY, ARTEFACT)
    assert kernels.get(KEY) is None


def _write_often(folder: str, number: int) -> None:
    kernels = KernelCache(Path(folder))
    for _ in range(50):
        kernels.put(KEY, replace(ARTEFACT, object=bytes([number]) * 100_000))


def test_concurrent_writers_never_show_half_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(str(tmp_path), number)) for number in (1, 2)]
    kernels = KernelCache(tmp_path)
    kernels.put(KEY, ARTEFACT)
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = kernels.get(KEY)
        assert found is not None and (found == ARTEFACT or len(set(found.object)) == 1)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0


def test_a_writer_killed_in_the_middle(tmp_path: Path) -> None:
    code = """
        import sys
        from dataclasses import replace
        from pathlib import Path
        sys.path[:0] = sys.argv[2:]
        import test_kernel_cache as t
        kernels = t.KernelCache(Path(sys.argv[1]))
        big = replace(t.ARTEFACT, object=bytes(30_000_000))
        while True:
            kernels.put(t.KEY, big)
    """
    here = str(Path(__file__).resolve().parent)
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), here]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment) as writer:
        deadline = time.monotonic() + 60
        while not any(tmp_path.glob("*.tmp")) and time.monotonic() < deadline:
            assert writer.poll() is None
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
    kernels = KernelCache(tmp_path)
    found = kernels.get(KEY)
    assert found is None or len(found.object) == 30_000_000
    kernels.put(KEY, ARTEFACT)
    assert kernels.get(KEY) == ARTEFACT


def test_key_holds_everything() -> None:
    base = cache.key("ttir", Options(), TARGET)
    others = {
        cache.key("ttir ", Options(), TARGET),
        cache.key("ttir", Options(fp_fusion=False), TARGET),
        cache.key("ttir", Options(disjoint=True), TARGET),
        cache.key("ttir", Options(checks=True), TARGET),
        cache.key("ttir", Options(debug=True), TARGET),
        cache.key("ttir", Options(), replace(TARGET, cpu="skylake")),
        cache.key("ttir", Options(), replace(TARGET, triple="aarch64-linux")),
        cache.key("ttir", Options(), replace(TARGET, features=frozenset({"avx2"}))),
    }
    assert len(others | {base}) == 9
    assert base == cache.key("ttir", Options(), replace(TARGET, features=frozenset({"fma", "avx2"})))


def test_key_holds_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    base = cache.key("ttir", Options(), TARGET)
    monkeypatch.setattr(cache, "toolchain", lambda: ("next",))
    assert cache.key("ttir", Options(), TARGET) != base
