"""Triton's functions for both sides, such as `triton.cdiv`: on the host they are short, and mean what they meant."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.runtime.jit import ConstexprFunction

from omnikernel.ops import launches


@triton.constexpr_function
def second(n, k=2):
    return (n, k)


@pytest.fixture(autouse=True)
def installed():
    launches.install()


@pytest.fixture
def no_long_way(monkeypatch):
    def refuse(value):
        raise AssertionError(f"Triton looked at {value!r}")

    monkeypatch.setattr(tl.core, "_unwrap_if_constexpr", refuse)


def test_python_ints_take_the_short_way(no_long_way):
    assert triton.cdiv(17, 4) == 5 and triton.next_power_of_2(17) == 32 and second(1) == (1, 2)


@pytest.mark.parametrize("args", [(np.int64(17), 4), (17, tl.constexpr(4)), (17.0, 4), (True, 4), ((1, 2), 3)])
def test_everything_else_goes_to_triton(no_long_way, args):
    with pytest.raises(AssertionError, match="Triton looked at"):
        second(*args)


def test_constants_of_a_kernel_are_unwrapped():
    assert triton.cdiv(tl.constexpr(17), 4) == triton.cdiv(17, y=tl.constexpr(4)) == 5
    assert second(tl.constexpr(3)) == (3, 2)


def test_a_second_install_changes_nothing():
    before = ConstexprFunction.__call__
    launches.install()
    assert ConstexprFunction.__call__ is before


def test_in_a_kernel_the_result_is_a_constant():
    @triton.jit
    def kernel(out, N: tl.constexpr, BLOCK: tl.constexpr):
        parts: tl.constexpr = triton.cdiv(N, BLOCK)
        i = tl.arange(0, triton.next_power_of_2(parts))
        tl.store(out + i, i + parts, i < parts)

    out = np.zeros(8, np.int32)
    kernel[(1,)](out, 17, 4)
    assert out.tolist() == [5, 6, 7, 8, 9, 0, 0, 0]


@pytest.mark.torch
def test_in_a_compiled_function_sizes_stay_symbolic():
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounter

    def function(x):
        return x.new_zeros(triton.cdiv(x.shape[0], 4) + second(x.shape[0])[0])

    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
    assert [compiled(torch.ones(n)).shape[0] for n in (17, 40, 99)] == [17 + 5, 40 + 10, 99 + 25]
    assert counter.frame_count == 1
