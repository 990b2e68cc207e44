"""Timing: contenders take turns, round by round, so that whatever disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .verdict import Timing

Call = Callable[[], object]
ENOUGH = 0.004  # seconds that a turn should take at least, so that the clock is exact
PAUSE = 0.003  # seconds before a turn: OpenMP's threads spin for a while after the one before


@dataclass(frozen=True, slots=True)
class Contender:
    """A call to be timed; `restore`, where there is one, puts back what the call changes, and is not timed."""

    call: Call
    restore: Call | None = None


def clock_for(device: str, threads: int) -> Callable[[Call, int], float]:
    """What gives the seconds of `count` calls.

    On the CPU with one thread it is the processor time of the process, which other work on the machine does not lengthen;
    with more threads time on the wall; on a GPU the time between two events on the stream.
    """
    if device != "cpu":
        return _on_gpu
    now = time.process_time if threads == 1 else time.perf_counter

    def measure(call: Call, count: int) -> float:
        start = now()
        for _ in range(count):
            call()
        return now() - start

    return measure


def _on_gpu(call: Call, count: int) -> float:
    import torch

    event: Any = torch.cuda.Event
    first, last = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    for _ in range(count):
        call()
    last.record()
    torch.cuda.synchronize()
    elapsed: float = first.elapsed_time(last)
    return elapsed / 1e3


def interleaved(
    contenders: Mapping[str, Contender], rounds: int, measure: Callable[[Call, int], float]
) -> dict[str, Timing]:
    """Time every contender, in turn, `rounds` times; every second round in the opposite order."""
    counts = {name: _count(contender, measure) for name, contender in contenders.items()}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name in list(contenders) if turn % 2 == 0 else reversed(list(contenders)):
            found[name].append(_turn(contenders[name], counts[name], measure))
    return {name: Timing(tuple(times)) for name, times in found.items()}


def _turn(contender: Contender, count: int, measure: Callable[[Call, int], float]) -> float:
    """Seconds a call, after one that does not count and that fills the caches again."""
    if contender.restore is None:
        time.sleep(PAUSE)
        contender.call()
        return max(measure(contender.call, count) / count, 1e-9)
    taken = 0.0
    for turn in range(count + 1):
        contender.restore()
        once = measure(contender.call, 1)
        taken += once if turn else 0.0
    return max(taken / count, 1e-9)


def _count(contender: Contender, measure: Callable[[Call, int], float]) -> int:
    """How many calls fill a turn. The first calls, which compile and fill caches, are not looked at."""
    call, restore = contender.call, contender.restore or (lambda: None)
    for _ in range(2):
        restore()
        call()
    restore()
    once: Any = max(measure(call, 1), 1e-7)
    return max(1, min(10_000, int(ENOUGH / once) + 1))


def issue_seconds(contender: Contender, calls: int = 30) -> float:
    """Seconds in which the host gives a GPU one call, without waiting for it to be done."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        contender.call()
    taken = (time.perf_counter() - start) / calls
    torch.cuda.synchronize()
    return taken
