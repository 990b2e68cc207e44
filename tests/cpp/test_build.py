"""Builds: the cache, killed and simultaneous builds, a read-only folder, a full disk, no compiler, errors in the source."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import omnikernel
from omnikernel.cpp import build as building
from omnikernel.cpp.toolchain import BuildError, Compiler, find_compiler

SOURCE = "#include <omnikernel.h>\nint answer() { return ANSWER; }"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: object) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("OMNIKERNEL_CACHE_DIR", str(folder))
    return folder / "cpp"


def answer(value: int, **options: object) -> int:
    mod = omnikernel.load_inline("ask", cpp_source=SOURCE, macros={"ANSWER": value}, **options)  # type: ignore[arg-type]
    return int(mod.answer())


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a build would be an error."""

    def refuse(*args: object) -> None:
        raise AssertionError("the compiler ran")

    monkeypatch.setattr(building, "run_compiler", refuse)


def test_an_entry_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(1) == 1 and answer(2) == 2
    assert len(entries(cache)) == 2
    no_compiler(monkeypatch)
    assert answer(1) == 1
    with pytest.raises(AssertionError, match="the compiler ran"):
        answer(1, extra_cflags=["-DOTHER"])


def test_a_damaged_entry_is_built_again(cache: Path) -> None:
    answer(3)
    (name,) = entries(cache)
    library = cache / name / "module.so"
    content = library.read_bytes()
    library.unlink()  # not written in place: this process has it mapped
    library.write_bytes(content[:-10])
    assert answer(3) == 3
    assert entries(cache) == [name]


def test_a_header_of_the_users_is_part_of_the_key(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "headers"
    folder.mkdir()
    source = '#include "number.h"\nint number() { return NUMBER; }'
    for value in (4, 5):
        (folder / "number.h").write_text(f"#define NUMBER {value}\n")
        mod = omnikernel.load_inline("n", cpp_source=source, include_paths=[folder])
        assert mod.number() == value


def test_files_and_several_sources(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text("int helper(int);\nint one(int x) { return helper(x); }\n")
    (tmp_path / "two.cpp").write_text("int helper(int x) { return 2 * x; }\n")
    mod = omnikernel.load("pair", [tmp_path / "one.cpp", tmp_path / "two.cpp"])
    assert mod.one(4) == 8 and mod.helper(5) == 10


def test_linker_flags(cache: Path) -> None:
    source = 'extern "C" double lgamma(double);\ndouble f(double x) { return lgamma(x); }'
    assert omnikernel.load_inline("g", cpp_source=source, extra_ldflags=["-lm"]).f(1.0) == 0.0


def test_an_error_shows_the_users_line(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        omnikernel.load_inline("bad", cpp_source="int f() {\n  return missing;\n}")
    text = str(caught.value)
    assert text.startswith("module 'bad' does not compile with ")
    assert "bad.cpp:2:10: error: 'missing' was not declared in this scope" in text and "return missing;" in text
    with pytest.raises(BuildError, match=r"bad.cu:3:3: error: 'y' was not declared"):
        omnikernel.load_inline(
            "bad", cuda_source="\n__global__ void k(float *x, int\n n) {\n  y[0] = n; }".replace("\n n", " n")
        )
    assert entries(cache) == []


CHILD = """
import sys, omnikernel
mod = omnikernel.load_inline("ask", cpp_source=sys.argv[1], macros={"ANSWER": 7})
print(mod.answer(), flush=True)
"""


def child(cache: Path, **environment: str) -> subprocess.Popen[str]:
    given = {**os.environ, "OMNIKERNEL_CACHE_DIR": str(cache.parent), **environment}
    return subprocess.Popen([sys.executable, "-c", CHILD, SOURCE], env=given, stdout=subprocess.PIPE, text=True)


def slow_compiler(tmp_path: Path, seconds: float) -> str:
    """A compiler that first waits, and notes that it was run."""
    real = find_compiler().path
    script = tmp_path / "slow-c++"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || {{ echo run >>{tmp_path}/runs; sleep {seconds}; }}\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.01)


def test_a_killed_build_hinders_nobody(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = slow_compiler(tmp_path, 3)
    victim = child(cache, CXX=compiler)
    wait_for(tmp_path / "runs")
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    left = [name for name in entries(cache) if name.endswith(".tmp")]
    assert len(left) == 1  # what it had begun
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setattr(building, "LOCK_SECONDS", 0.0)  # a lock that is still held would be an error here
    assert answer(7) == 7
    assert len(entries(cache)) == 1 and not [name for name in entries(cache) if name.endswith(".tmp")]


def test_two_processes_build_once(cache: Path, tmp_path: Path) -> None:
    compiler = slow_compiler(tmp_path, 0.5)
    both = [child(cache, CXX=compiler) for _ in range(2)]
    assert [p.communicate(timeout=120)[0].strip() for p in both] == ["7", "7"]
    assert (tmp_path / "runs").read_text().splitlines() == ["run"]
    assert len(entries(cache)) == 1


def test_a_lock_that_is_not_had_in_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    answer(1)
    compiler = find_compiler(building.folder())
    monkeypatch.setattr(building, "LOCK_SECONDS", 0.05)
    held: list[int] = []
    original = building.key

    def key(recipe: building.Recipe, compiler: Compiler) -> str:
        name = original(recipe, compiler)
        held.append(os.open(cache / f"{name}.lock", os.O_RDWR | os.O_CREAT))
        fcntl.flock(held[0], fcntl.LOCK_EX)
        return name

    monkeypatch.setattr(building, "key", key)
    assert answer(9) == 9  # built without the lock
    os.close(held[0])
    assert compiler.version


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_by_permissions(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with pytest.warns(RuntimeWarning, match=r"cannot be written.*OMNIKERNEL_CACHE_DIR"):
        assert answer(8) == 8


def test_a_read_only_folder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(11)
    real = os.open

    def refuse(path: object, flags: int, *rest: object, **more: object) -> int:
        if str(path).startswith(str(cache)) and flags & os.O_CREAT:
            raise OSError(30, "Read-only file system", str(path))
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answer(11) == 11  # what is there is used, without a word
    with pytest.warns(RuntimeWarning, match=r"cannot be written.*OMNIKERNEL_CACHE_DIR"):
        assert answer(12) == 12


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Path(cache.parent.parent / "c++")
    message = "fatal error: error writing to unit.o: No space left on device"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo fake 1; exit 0; }}\necho "{message}" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    with pytest.raises(BuildError) as caught:
        answer(13)
    assert str(caught.value) == (
        f"module 'ask': no space left on the disk of {cache}; "
        "free some, or set OMNIKERNEL_CACHE_DIR to a folder on another disk"
    )
    assert entries(cache) == []


READ_ONLY = """
import os, subprocess, sys, warnings
place, source = sys.argv[1:]
if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
    print("not mounted")
    sys.exit()
import omnikernel
def answer(value):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = omnikernel.load_inline("ask", cpp_source=source, macros={"ANSWER": value}).answer()
    print(found, *(str(w.message).partition(":")[0] for w in caught))
answer(7)
subprocess.run(["mount", "-o", "remount,ro", place], check=True)
answer(7)
answer(8)
answer(8)
"""


def test_a_read_only_file_system(tmp_path: Path, compiler: object) -> None:
    """What is there is used without a word; what is not is built elsewhere, with a warning."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["unshare", "-m", sys.executable, "-c", READ_ONLY, str(place), SOURCE]
    environment = {**os.environ, "OMNIKERNEL_CACHE_DIR": str(place)}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare command")
    if run.stdout.strip() == "not mounted" or "unshare" in run.stderr:
        pytest.skip(f"a file system cannot be mounted here: {run.stderr.strip()[-200:]}")
    said = f"the cache {place / 'cpp'} cannot be written"
    assert run.stdout.splitlines()[:3] == ["7", "7", f"8 {said}"], run.stderr
    assert run.stdout.splitlines()[3].split()[0] == "8"


FULL = """
import os, subprocess, sys
place, size, source = sys.argv[1:]
mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]
if subprocess.run(mount, capture_output=True).returncode:
    print("not mounted")
    sys.exit()
import omnikernel
from omnikernel.cpp.toolchain import BuildError
try:
    omnikernel.load_inline("ask", cpp_source=source, macros={"ANSWER": 7})
    print("built")
except BuildError as error:
    print(error)
folder = os.path.join(place, "cpp")
print([name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))])
"""


@pytest.mark.parametrize("size", ["8k", "16k", "24k", "32k"])
def test_a_full_tmpfs(tmp_path: Path, compiler: object, size: str) -> None:
    """A small file system of memory, mounted where that is allowed: nothing broken is left on it."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["unshare", "-m", sys.executable, "-c", FULL, str(place), size, SOURCE]
    environment = {**os.environ, "OMNIKERNEL_CACHE_DIR": str(place)}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare command")
    if run.stdout.strip() == "not mounted" or "unshare" in run.stderr:
        pytest.skip(f"a file system cannot be mounted here: {run.stderr.strip()[-200:]}")
    assert run.stdout.splitlines() == [
        f"module 'ask': no space left on the disk of {place / 'cpp'}; "
        "free some, or set OMNIKERNEL_CACHE_DIR to a folder on another disk",
        "[]",
    ], run.stderr


def test_no_compiler(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        find_compiler(environment={"PATH": str(tmp_path)})
    assert str(caught.value).startswith("no C++ compiler was found; tried: c++, g++, clang++; install g++")
    with pytest.raises(BuildError, match=r"tried: icpx \(from CXX\); install"):
        find_compiler(environment={"PATH": str(tmp_path), "CXX": "icpx"})


def test_a_cached_library_needs_no_headers_of_another_version(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(14)
    monkeypatch.setattr(building, "headers", lambda: "other")
    no_compiler(monkeypatch)
    with pytest.raises(AssertionError, match="the compiler ran"):
        answer(14)


def test_arrays_outlive_nothing(cache: Path) -> None:
    mod = omnikernel.load_inline("x", cpp_source="void one(float *x) { x[0] = 1; }")
    x = np.zeros(1, np.float32)
    mod.one(x)
    assert x[0] == 1
