"""Large modules are compiled as two at the same time; the object code is one file that does what the module's would."""

from __future__ import annotations

import ctypes
import struct
import threading

import llvmlite.binding as llvm
import pytest

from omnikernel import elf, relocatable
from omnikernel.llvm import calls, jit, pieces, threads
from omnikernel.lower.lanes import Target

AARCH64 = Target("aarch64-unknown-linux-gnu", "generic", frozenset({"neon", "fp-armv8"}))

# f(i) = 2 table[i] + 1. Functions in both modules call one another, read constants with names, and numbers that LLVM keeps
# in memory under names of its own, which are the same in both.
TEXT = """\
target triple = "{triple}"
@table = private unnamed_addr constant [4 x i64] [i64 3, i64 5, i64 8, i64 13], align 64
@other = private unnamed_addr constant [1 x i64] [i64 1], align 64
define internal i64 @entry.of.table(i64 %i) noinline nounwind {{
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p, align 8
  %x = sitofp i64 %v to double
  %y = fmul double %x, 3.0
  %z = fptosi double %y to i64
  %third = sdiv i64 %z, 3
  %w = call i64 @twice(i64 %third)
  ret i64 %w
}}
define internal i64 @twice(i64 %x) noinline nounwind {{
  %y = call i64 @llvm.smax.i64(i64 %x, i64 0)
  %z = add i64 %y, %x
  ret i64 %z
}}
define i64 @{name}(i64 %i) nounwind {{
  %v = call i64 @entry.of.table(i64 %i)
  %one = load i64, ptr @other, align 8
  %x = sitofp i64 %v to double
  %y = fmul double %x, 5.0
  %z = fptosi double %y to i64
  %fifth = sdiv i64 %z, 5
  %w = add i64 %fifth, %one
  ret i64 %w
}}
declare i64 @llvm.smax.i64(i64, i64)
!0 = !{{!"branch_weights", i32 1, i32 100}}
"""
WANTED = [7, 11, 17, 27]


def text(name: str = "f", target: Target | None = None) -> str:
    return TEXT.format(triple=(target or jit.host_target()).triple, name=name)


def answers(data: bytes, name: str = "f") -> list[int]:
    loaded = jit.load_object(data, name)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address)
    return [function(i) for i in range(len(WANTED))]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small modules are divided, too."""
    monkeypatch.setattr(pieces, "LARGE", 0)


@pytest.mark.usefixtures("small")
def test_two_modules_do_what_one_does() -> None:
    parts = pieces.divided(text())
    assert len(parts) == 2
    assert all("define internal" not in part and "define" in part for part in parts)
    assert "@table" not in parts[0] and "@other" not in parts[1]  # a constant goes where it is read
    data = jit.compile_object(text(), jit.host_target())
    assert answers(data) == WANTED
    assert not list(elf.undefined_symbols(data))


def test_small_modules_stay_whole() -> None:
    assert pieces.divided(text()) == [text()]
    assert answers(jit.compile_object(text(), jit.host_target())) == WANTED


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("global_", ["internal global", "global", "private unnamed_addr global"])
def test_modules_with_state_stay_whole(global_: str) -> None:
    stateful = text().replace("private unnamed_addr constant [1", f"{global_} [1")
    assert pieces.divided(stateful) == [stateful]
    assert answers(jit.compile_object(stateful, jit.host_target())) == WANTED


@pytest.mark.usefixtures("small")
def test_same_code_whoever_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = jit.compile_object(text(), jit.host_target())
    with monkeypatch.context() as m:
        m.setattr(threads, "available_threads", lambda: 1)
        assert jit.compile_object(text(), jit.host_target()) == data
    with monkeypatch.context() as m:
        m.setattr(threads, "available_threads", lambda: 2)
        m.setattr(calls, "_function", lambda name: None)  # llvmlite keeps its functions elsewhere
        assert jit.compile_object(text(), jit.host_target()) == data

    def refuses(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as m:
        m.setattr(threads, "available_threads", lambda: 2)
        m.setattr(threading.Thread, "start", refuses)
        assert jit.compile_object(text(), jit.host_target()) == data


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("wrong", ["%w = call i64 @twice(i64 %third)", "%w = add i64 %fifth, %one"])
def test_an_error_in_either_module_is_raised(wrong: str) -> None:
    with pytest.raises(RuntimeError, match=r"no\.such\.value"):
        jit.compile_object(text().replace(wrong, "%w = add i64 %no.such.value, 1"), jit.host_target())
    assert answers(jit.compile_object(text(), jit.host_target())) == WANTED  # and the next one is not affected


@pytest.mark.usefixtures("small")
def test_what_a_kernel_keeps_to_itself_is_local() -> None:
    """Two kernels of one library may have functions of the same names."""
    objects = [jit.compile_object(text(name), jit.host_target()) for name in ("f", "g")]
    both = relocatable.merge(objects)
    assert answers(both, "f") == answers(both, "g") == WANTED


@pytest.mark.usefixtures("small")
def test_for_another_machine() -> None:
    data = jit.compile_object(text(target=AARCH64), AARCH64)
    assert struct.unpack_from("<H", data, 18) == (183,)  # EM_AARCH64
    assert not list(elf.undefined_symbols(data))
    sections = llvm.ObjectFileRef.from_data(data).sections()
    assert sum(section.is_text() and section.size() > 0 for section in sections) == 2


def test_what_is_not_merged() -> None:
    here, other = jit.compile_object(text(), jit.host_target()), jit.compile_object(text(target=AARCH64), AARCH64)
    assert answers(relocatable.merge([here])) == WANTED
    with pytest.raises(ValueError, match="symbol f is defined twice"):
        relocatable.merge([here, here])
    if struct.unpack_from("<H", here, 18) != (183,):
        with pytest.raises(ValueError, match="different machines"):
            relocatable.merge([here, other])
    with pytest.raises(ValueError, match="not an ELF64"):
        relocatable.merge([b"\x7fELF\x01\x01"])


@pytest.mark.usefixtures("small")
def test_while_others_use_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that compile, and another library that uses llvmlite's own context under its lock."""
    monkeypatch.setattr(threads, "available_threads", lambda: 2)
    wrong: list[object] = []

    def compiles(number: int) -> None:
        try:
            for i in range(12):
                name = f"f{number}.{i}"
                if answers(jit.compile_object(text(name), jit.host_target()), name) != WANTED:
                    wrong.append(name)
        except Exception as error:
            wrong.append(error)

    def others() -> None:
        try:
            for i in range(60):
                machine = llvm.Target.from_default_triple().create_target_machine()
                if not machine.emit_object(llvm.parse_assembly(text(f"other{i}"))):
                    wrong.append(i)
        except Exception as error:
            wrong.append(error)

    running = [threading.Thread(target=compiles, args=(n,)) for n in range(3)] + [threading.Thread(target=others)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong
