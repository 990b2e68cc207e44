"""Timing: contenders take turns, round by round, so that whatever disturbs the machine disturbs all of them.

A figure is a median over rounds; a ratio is the median of the rounds' ratios, which is steadier than the ratio of two
medians. Within a round a contender runs often enough for the clock to be exact. Before its turn there is a pause, since
the threads of the one before may still spin for work, and one call that does not count, to fill the caches again.

With one thread the clock is the processor time of the process: on a quiet machine the same as time on the wall, and
beside other work still a measure of the kernels. With more threads it is time on the wall.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Call = Callable[[], object]
Clock = Callable[[], float]
PAUSE = 0.005  # seconds; OpenMP's threads spin for one or two milliseconds


@dataclass(frozen=True)
class Timing:
    """Seconds a call, round by round."""

    rounds: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return statistics.median(self.rounds)

    def ratio(self, other: Timing) -> float:
        """This one's time as a share of the other's: the median over the rounds."""
        return statistics.median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


def _repeats(call: Call, enough: float) -> int:
    """How many calls take about `enough` seconds. Runs the call, so it also warms it up."""
    call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= enough or count >= 1 << 20:
            return count
        count = max(count + 1, min(count * 10, int(count * enough / max(took, 1e-9)) + 1))


def clock_for(threads: int) -> Clock:
    """Seconds of the kind that fits a number of threads."""
    return time.process_time if threads == 1 else time.perf_counter


def interleaved(calls: Mapping[str, Call], rounds: int, clock: Clock, enough: float = 0.004) -> dict[str, Timing]:
    """Time every call, in turn, `rounds` times.

    Args:
        calls: name -> a call without arguments.
        rounds: how many times each gets its turn.
        clock: what tells the seconds; see `clock_for`.
        enough: seconds a turn should take at least; a slower call runs once a turn.
    """
    repeats = {name: _repeats(call, enough) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        names = list(calls) if turn % 2 == 0 else list(reversed(calls))
        for name in names:
            call, count = calls[name], repeats[name]
            time.sleep(PAUSE)
            call()
            start = clock()
            for _ in range(count):
                call()
            times[name].append((clock() - start) / count)
    return {name: Timing(tuple(t)) for name, t in times.items()}


def median_seconds(call: Call, rounds: int, clock: Clock) -> float:
    """Median seconds of `rounds` single calls, without warming up."""
    times = []
    for _ in range(rounds):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)
