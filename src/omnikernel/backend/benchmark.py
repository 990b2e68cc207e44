"""The wall-clock timer behind `triton.autotune` and `triton.testing.do_bench` on the CPU. Needs no torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Any

_LEAST, _MOST = 3, 2000


def quantiles_of(samples: Sequence[float], wanted: Iterable[float]) -> list[float]:
    """Quantiles of the samples, interpolated linearly.

    Raises:
        ValueError: a quantile outside [0, 1].
    """
    ordered = sorted(samples)
    found = []
    for quantile in wanted:
        if not 0 <= quantile <= 1:
            raise ValueError(f"a quantile is between 0 and 1, got {quantile}")
        place = quantile * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        found.append(ordered[low] + (place - low) * (ordered[high] - ordered[low]))
    return found


def _timed(call: Callable[[], Any]) -> float:
    start = perf_counter_ns()
    call()
    return (perf_counter_ns() - start) / 1e6


def sample(call: Callable[[], Any], budget_ms: float, *, before_each: Callable[[], Any] | None = None) -> list[float]:
    """Times of single calls, in milliseconds, until the budget is spent.

    The first call is not counted: it compiles. A call that alone takes longer than the budget is timed once, so a
    slow kernel costs two calls and no more.
    """
    call()
    times: list[float] = []
    spent = 0.0
    while len(times) < _MOST and (spent < budget_ms or (len(times) < _LEAST and spent < 3 * budget_ms)):
        if before_each is not None:
            before_each()
        times.append(_timed(call))
        spent += times[-1]
    return times


def bench(
    call: Callable[[], Any],
    warmup: float = 10,
    rep: float = 40,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Iterable[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Time a call, with the parameters and results of `triton.testing.do_bench`.

    Args:
        call: what to time.
        warmup: milliseconds of calls before those that count.
        rep: milliseconds of calls that count.
        grad_to_none: tensors whose `grad` is cleared before each call.
        quantiles: which quantiles of the times to return; then `return_mode` does not count.
        return_mode: "min", "max", "mean", "median" or "all".

    Returns:
        Milliseconds: a list for `quantiles` (a number where there is one) and "all", else a number.

    Raises:
        ValueError: an unknown `return_mode`, or a quantile outside [0, 1].
    """
    summaries: dict[str, Callable[[list[float]], Any]] = {
        "min": min,
        "max": max,
        "mean": statistics.mean,
        "median": statistics.median,
        "all": list,
    }
    if return_mode not in summaries:
        raise ValueError(f"return_mode is one of {', '.join(summaries)}, got {return_mode!r}")
    tensors = list(grad_to_none or ())

    def clear() -> None:
        for tensor in tensors:
            tensor.grad = None

    first = sample(call, warmup)
    times = first if sum(first) > rep else sample(call, rep, before_each=clear if tensors else None)
    if quantiles is None:
        return summaries[return_mode](times)
    found = quantiles_of(times, quantiles)
    return found[0] if len(found) == 1 else found
