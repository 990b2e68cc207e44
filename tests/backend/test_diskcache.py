"""Damaged entries of Triton's cache folder are compiled again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., str]

CODE = """
import triton, triton.language as tl

@triton.jit
def fill(r, N: tl.constexpr):
    tl.store(r + tl.arange(0, N), 1.0)

fill[(1,)](np.zeros(8, np.float32), N=8)
print(len(CALLS), len(COMPILED))
"""
# Launch anew from Triton's cache on disk, without the kernels in memory and without our own cache.
AGAIN = """
import os, pathlib

def entry(pattern):
    found, = [f for f in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob(pattern) if f.is_file()]
    return found

def compilations():
    for file in pathlib.Path(os.environ["OMNIKERNEL_CACHE_DIR"]).rglob("*.kernel"):
        file.unlink()
    fill.device_caches.clear()
    before = len(COMPILED)
    fill[(1,)](np.zeros(8, np.float32), N=8)
    return len(COMPILED) - before
"""


def test_damaged_files(python: Run) -> None:
    out = python(
        CODE
        + AGAIN
        + """
changed = bytearray(entry("fill.so").read_bytes())
changed[-1] ^= 1
print("intact", compilations())
for pattern, content in [
    ("fill.json", b"{"), ("fill.json", b""), ("fill.json", bytes([255, 254])), ("fill.json", b"{}"),
    ("fill.so", b""), ("fill.so", b"not an artefact"), ("fill.so", bytes(changed)), ("fill.ttir", bytes([255, 254, 255])),
    ("__grp__fill.json", b'{"child_paths": '), ("__grp__fill.json", b"[]"), ("__grp__fill.json", b"{}"),
]:
    entry(pattern).write_bytes(content)
    print(pattern, compilations(), compilations())
""",
        recorder=True,
    )
    first, intact, *damaged = out.splitlines()
    assert (first, intact) == ("1 1", "intact 0")
    assert len(damaged) == 11
    assert all(line.endswith(" 1 0") for line in damaged), out


def test_missing_files(python: Run) -> None:
    out = python(
        CODE
        + AGAIN
        + """
for pattern in ("fill.json", "fill.so", "__grp__fill.json"):
    entry(pattern).unlink()
    print(pattern, compilations(), compilations())
""",
        recorder=True,
    )
    assert out.splitlines()[1:] == ["fill.json 1 0", "fill.so 1 0", "__grp__fill.json 1 0"]


def test_a_cache_of_binaries_alone(python: Run, tmp_path: Path) -> None:
    code = """
import numpy as np
import triton, triton.language as tl

@triton.jit
def move(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))

x = np.arange(9, dtype=np.float32)
kernel = move[(1,)](x[:4], x[4:8], N=4)
move[(1,)](x[:8], x[1:], N=8)  # overlaps: compiled anew from what the binary holds
print(x, sorted(kernel.asm))
"""
    env = {"TRITON_STORE_BINARY_ONLY": "1"}
    first = python(code, env=env)
    assert first == "[0. 0. 1. 2. 3. 0. 1. 2. 3.] ['so', 'source']\n"
    assert python(code, env=env) == first
    assert not list((tmp_path / "triton").rglob("*.ttir"))


def test_our_own_cache_spares_a_second_compilation(python: Run, tmp_path: Path) -> None:
    assert python(CODE, recorder=True).split() == ["1", "1"]
    for file in (tmp_path / "triton").rglob("*"):
        if file.is_file():
            file.unlink()
    assert python(CODE, recorder=True).split() == ["1", "0"]


def test_a_process_killed_at_any_write_leaves_what_the_next_one_uses_or_replaces(python: Run) -> None:
    out = python(
        CODE.replace("fill[(1,)]", "def launch():\n    fill[(1,)]").replace("print(", "# print(")
        + """
import os, shutil, signal

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def killed_at(write):
    stock, count = os.replace, iter(range(100))
    def replace(*names):
        if next(count) == write:
            os.kill(os.getpid(), signal.SIGKILL)
        stock(*names)
    os.replace = replace
    launch()

triton.runtime.driver.active
kills = 0
for write in range(20):
    for name in ("TRITON_CACHE_DIR", "OMNIKERNEL_CACHE_DIR"):
        shutil.rmtree(os.environ[name], ignore_errors=True)
    kills += child(lambda: killed_at(write)) == signal.SIGKILL
    assert child(launch) == 0
print(kills)
""",
        recorder=True,
    )
    assert int(out) >= 5  # source, ttir, so, json, group: one write each, and our own cache's
