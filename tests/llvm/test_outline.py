"""Loops that appear twice become functions where that changes nothing, and only there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from omnikernel.llvm.emit import I32, I64, PTR, Builder, LType, LValue, Module
from omnikernel.llvm.jit import compile_object, function_at, host_target, load_object
from omnikernel.llvm.outline import LEAST

A = LValue("%a", PTR)


def function(write: Callable[[Builder], None]) -> Module:
    module = Module(triple=host_target().triple)
    b = Builder(module)
    for name in ("%a", "%b", "%c"):
        b.named(name, PTR)
    write(b)
    b.ret(b.integer(I32, 0))
    b.function("define i32 @f(ptr %a, ptr %b, i64 %m, i64 %n, ptr %c, ptr %d)", "nounwind ")
    return module


def add_up(b: Builder, array: LValue, number: LValue, rounds: int = LEAST) -> None:
    """`array[0] += number` many times over, in a loop of eight trips."""

    def trip(i: LValue) -> None:
        for _ in range(rounds):
            b.store(b.add(b.load(I64, array, 8), b.mul(number, i)), array, 8)

    b.repeat(8, 1, trip)


def calls(module: Module) -> list[str]:
    return re.findall(r"call void @(loop[.\d]+)", module.text)


def numbers(b: Builder) -> tuple[LValue, LValue]:
    b.named("%m", I64)
    b.named("%n", I64)
    return LValue("%m", I64), LValue("%n", I64)


def test_equal_loops_are_called_with_what_they_read() -> None:
    import numpy as np

    def write(b: Builder) -> None:
        m, n = numbers(b)
        add_up(b, A, m)
        add_up(b, LValue("%b", PTR), n)

    module = function(write)
    first, second = calls(module)
    assert first == second and module.text.count(f"define internal void @{first}(") == 1
    loaded = load_object(compile_object(module.text, host_target()), "f")
    a, other = np.zeros(1, np.int64), np.zeros(1, np.int64)
    function_at(loaded.address)(a.ctypes.data, other.ctypes.data, 2, 3, 0, 0)
    assert (a[0], other[0]) == (2 * 28 * LEAST, 3 * 28 * LEAST)


def test_three_loops_and_loops_in_loops() -> None:
    def write(b: Builder) -> None:
        m, n = numbers(b)
        b.repeat(2, 1, lambda _: b.repeat(m, 1, lambda _: add_up(b, A, n)))
        b.repeat(2, 1, lambda _: b.repeat(m, 1, lambda _: add_up(b, A, n)))
        add_up(b, A, m)
        add_up(b, A, m)

    module = function(write)
    one, same, other, again = calls(module)
    assert one == same and other == again != one


def stores(b: Builder, value: LValue, array: LValue = A) -> list[LValue]:
    for _ in range(LEAST):
        b.store(value, array, 8)
    return []


@pytest.mark.parametrize("change", ["nothing", "step", "predicate", "order"])
def test_loops_that_differ_stay(change: str) -> None:
    def write(b: Builder) -> None:
        m, n = numbers(b)
        zero = b.integer(I64, 0)
        b.loop(zero, m, 1, [], lambda i, _: stores(b, b.sub(m, n)))
        b.loop(
            zero,
            m,
            2 if change == "step" else 1,
            [],
            lambda i, _: stores(b, b.sub(m, m if change == "order" else n)),
            unsigned=change == "predicate",
        )

    assert len(calls(function(write))) == (2 if change == "nothing" else 0)


def test_a_loop_whose_result_is_used_stays() -> None:
    def write(b: Builder) -> None:
        m, _ = numbers(b)
        zero = b.integer(I64, 0)
        for _ in range(2):

            def trip(i: LValue, carried: list[LValue]) -> list[LValue]:
                for _ in range(LEAST):
                    carried = [b.add(b.mul(carried[0], i), m)]
                return carried

            b.store(b.loop(zero, m, 1, [zero], trip)[0], A, 8)

    assert not calls(function(write))


def test_a_loop_that_leaves_the_function_stays() -> None:
    def write(b: Builder) -> None:
        m, _ = numbers(b)
        for _ in range(2):

            def trip(i: LValue) -> None:
                add_up(b, A, m, rounds=1)
                for _ in range(LEAST):
                    b.store(i, A, 8)
                b.when(b.icmp("eq", i, m), lambda: b.ret(b.integer(I32, 1)))

            b.repeat(m, 1, trip)

    assert not calls(function(write))


def test_registers_and_masks_are_not_passed() -> None:
    """A scalar's stack slot would no longer become a register, and LLVM passes vectors of bits by ways of its own."""

    def write(b: Builder) -> None:
        m, _ = numbers(b)
        slot = b.slot(I64)
        bits = b.emit(LType("i1", 8), "icmp eq <8 x i8> zeroinitializer, zeroinitializer")
        for _ in range(2):
            add_up(b, slot, m)
            b.loop(b.integer(I64, 0), m, 1, [], lambda i, _: stores(b, bits))

    assert not calls(function(write))


def test_a_long_function_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that appear once become functions until they are as long as what is left; a short one stays whole."""
    import numpy as np

    def write(b: Builder) -> None:
        m, n = numbers(b)
        for number, rounds in ((m, 30), (n, 31), (m, 32), (n, 33)):
            add_up(b, A, number, rounds)

    assert not calls(function(write))
    monkeypatch.setattr("omnikernel.llvm.outline.LARGE", 0)
    module = function(write)
    assert len(calls(module)) == 2
    loaded = load_object(compile_object(module.text, host_target()), "f")
    a = np.zeros(1, np.int64)
    function_at(loaded.address)(a.ctypes.data, 0, 2, 3, 0, 0)
    assert a[0] == 28 * (2 * (30 + 32) + 3 * (31 + 33))


def test_a_loop_that_something_else_needs_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose result is read after it."""
    monkeypatch.setattr("omnikernel.llvm.outline.LARGE", 0)

    def sums(b: Builder) -> None:
        m, _ = numbers(b)
        for array in (A, LValue("%b", PTR)):

            def trip(i: LValue, carried: list[LValue], array: LValue = array) -> list[LValue]:
                total = carried[0]
                for _ in range(LEAST + (array is A)):
                    total = b.add(total, b.load(I64, array, 8))
                return [total]

            (total,) = b.loop(b.integer(I64, 0), m, 1, [b.integer(I64, 0)], trip)
            b.store(total, array, 8)

    assert not calls(function(sums))
