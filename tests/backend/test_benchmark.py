"""The timer: how often it calls, what it returns. No times are compared."""

from __future__ import annotations

import time

import pytest

from omnikernel.backend.benchmark import bench, quantiles_of, sample


def test_quantiles_interpolate() -> None:
    assert quantiles_of([4.0, 1.0, 3.0, 2.0], (0.0, 0.5, 1.0)) == [1.0, 2.5, 4.0]
    assert quantiles_of([7.0], (0.5, 0.2, 0.8)) == [7.0, 7.0, 7.0]


def test_the_autotuners_call_gives_three_numbers() -> None:
    got = bench(lambda: None, quantiles=(0.5, 0.2, 0.8))
    assert len(got) == 3
    assert 0 <= got[1] <= got[0] <= got[2]


def test_one_quantile_gives_a_number() -> None:
    assert isinstance(bench(lambda: None, quantiles=[0.5]), float)


@pytest.mark.parametrize("mode", ["min", "max", "mean", "median"])
def test_modes(mode: str) -> None:
    assert bench(lambda: None, return_mode=mode) > 0


def test_all_times() -> None:
    assert len(bench(lambda: None, return_mode="all")) >= 3


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="return_mode is one of"):
        bench(lambda: None, return_mode="sum")


def test_a_slow_call_is_not_repeated() -> None:
    calls = 0

    def slow() -> None:
        nonlocal calls
        calls += 1
        time.sleep(0.05)

    sample(slow, budget_ms=1)
    assert calls == 2


def test_errors_come_through() -> None:
    def fails() -> None:
        raise RuntimeError("the kernel failed")

    with pytest.raises(RuntimeError, match="the kernel failed"):
        bench(fails)
