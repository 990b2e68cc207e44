"""What a run was to reach, of every kind, and whether it did.

Each goal has a share: how much of what it allows was taken. Up to 1 it is met; where more is better, the share is the
limit over the figure. The whole is asked to meet `ENOUGH` of all goals, and none to be beyond `FAR` times its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

ENOUGH, FAR = 0.85, 1.5
FAMILY_LIMIT_MS = 250.0
FAMILY_RATIO = 1.5
CACHED_LIMIT_MS = 5.0
THREADS_GOAL = {"arithmetic": 1.6, "memory": 1.35}  # two threads, times as fast as one
FLAT = 1.3  # the dearest element of a memory-bound kernel against the cheapest, from the first cache to the last
PRODUCT = 0.8  # flops a second of the largest product against those of 512


@dataclass(frozen=True)
class Verdict:
    """One goal. `share` is None where it was not measured; `tuned` says that it is met by the autotuner's choice only."""

    kind: str
    name: str
    figure: str
    share: float | None
    tuned: bool = False

    @property
    def word(self) -> str:
        if self.share is None:
            return "not run"
        return "missed" if self.share > 1 else "met, tuned" if self.tuned else "met"


def of_row(record: Record) -> Iterator[tuple[str, float, float | None, float | None, str]]:
    """For each goal of a row: contender, limit, ratio, ratio as tuned, and "met", "met, tuned", "missed" or "not run"."""
    for peer, limit in record["goals"]:
        typical, tuned = record["ratio"].get(peer), record["ratio_tuned"].get(peer)
        if typical is None:
            word = "not run"
        elif typical <= limit:
            word = "met"
        else:
            word = "met, tuned" if tuned is not None and tuned <= limit else "missed"
        yield peer, limit, typical, tuned, word


def scaling(rows: list[Record]) -> Iterator[tuple[Record, float]]:
    """(row with more threads, times as fast as with one thread) for every row measured with one thread and with more.

    Without the row of the price of a program, whose programs write the same few cache lines: threads would fight for them.
    """
    single = {r["name"]: r["ms"]["ours"] for r in rows if r["threads"] == 1}
    for record in rows:
        if record["threads"] != 1 and record["name"] in single and record["bytes"]:
            yield record, single[record["name"]] / record["ms"]["ours"]


@dataclass(frozen=True)
class Spread:
    """Time a unit of work over the sizes of one kernel: the dearest against the cheapest, and at which sizes they are."""

    kernel: str
    alone: float
    launched: float  # the same with the price of a launch
    theirs: float | None
    dearest: int
    cheapest: int


def spreads(found: list[Record]) -> Iterator[Spread]:
    """For each memory-bound kernel of a sweep, over the sizes that fill the first cache and fit the last."""
    swept = [r for r in found if r["kind"] == "sweep" and r["bound"] == "memory"]
    for kernel in dict.fromkeys(r["kernel"] for r in swept):
        sizes = [r for r in swept if r["kernel"] == kernel and r["first_cache"] <= r["bytes"] <= r["last_cache"]]
        if len(sizes) < 2:
            continue
        cost = {r["size"]: r["alone_ms"] / r["units"] for r in sizes}
        launched = [r["ms"]["ours"] / r["units"] for r in sizes]
        theirs = [r["ms"]["torch"] / r["units"] for r in sizes if "torch" in r["ms"]]
        low, high = min(cost, key=cost.__getitem__), max(cost, key=cost.__getitem__)
        yield Spread(
            kernel,
            cost[high] / cost[low],
            max(launched) / min(launched),
            max(theirs) / min(theirs) if theirs else None,
            high,
            low,
        )


def product_rate(found: list[Record]) -> tuple[float, int] | None:
    """Flops a second of the largest product of a sweep against those of 512, and its size."""
    rates = {
        r["size"]: r["units"] / r["ms"]["ours"] for r in found if r["kind"] == "sweep" and r["kernel"] == "matmul f32"
    }
    largest = max(rates, default=0)
    return (rates[largest] / rates[512], largest) if 512 in rates and largest > 512 else None


def verdicts(found: list[Record]) -> Iterator[Verdict]:
    """Every goal of a run."""
    rows = [r for r in found if r["kind"] == "row"]
    for record in rows:
        if record["threads"] == 1:
            for peer, limit, typical, tuned, word in of_row(record):
                best = None if typical is None else min(typical, tuned or typical)
                share = None if best is None else best / limit
                figure = "" if best is None else f"{best:.2f} of {peer}, goal {limit:.2f}"
                yield Verdict("one thread", record["name"], figure, share, word == "met, tuned")
    for record, factor in scaling(rows):
        if record["threads"] == 2:
            goal = THREADS_GOAL[record["bound"]]
            yield Verdict("two threads", record["name"], f"{factor:.2f} times one, goal {goal}", goal / factor)
    for record in found:
        match record:
            case {"kind": "compile", "name": name, "ms": ms, "limit": limit}:
                yield Verdict("cold compile", name, f"{ms:.0f} ms, goal {limit:.0f}", ms / limit)
            case {"kind": "family", "name": name, "small_ms": small, "large_ms": large}:
                share = max(large / small / FAMILY_RATIO, max(small, large) / FAMILY_LIMIT_MS)
                yield Verdict("compile by family", name, f"{small:.0f} and {large:.0f} ms", share)
            case {"kind": "cached", "name": name, "ms": ms, "front_end_ms": front}:
                beyond = ms - front
                figure = f"{beyond:.1f} ms beyond the front end, goal {CACHED_LIMIT_MS:.0f}"
                yield Verdict("first launch from the cache", name, figure, beyond / CACHED_LIMIT_MS)
            case {"kind": "launch", "name": name, "us": us, "limit": float(limit)}:
                yield Verdict("warm launch", name, f"{us:.2f} us, goal {limit}", us / limit)
    for spread in spreads(found):
        yield Verdict("time against size", spread.kernel, f"{spread.alone:.2f}, goal {FLAT}", spread.alone / FLAT)
    product = product_rate(found)
    if product:
        yield Verdict("time against size", "matmul f32", f"{product[0]:.2f}, goal {PRODUCT}", PRODUCT / product[0])


@dataclass(frozen=True)
class Count:
    """The goals of one kind."""

    kind: str
    met: int
    tuned: int
    missing: int
    far: int
    all: int


# The kinds that make up the table of goals against what a user would pick instead. The others say how costs grow.
TABLE = ("one thread", "two threads", "cold compile", "first launch from the cache", "warm launch")


def counts(found: list[Record]) -> list[Count]:
    """A line a kind, then one for the kinds of `TABLE` together, and one for all."""
    every = list(verdicts(found))

    def count(kind: str, some: list[Verdict]) -> Count:
        words = [v.word for v in some]
        far = sum(v.share is not None and v.share > FAR for v in some)
        met = words.count("met") + words.count("met, tuned")
        return Count(kind, met, words.count("met, tuned"), words.count("not run"), far, len(some))

    kinds = dict.fromkeys(v.kind for v in every)
    each = [count(kind, [v for v in every if v.kind == kind]) for kind in kinds]
    return [*each, count("table", [v for v in every if v.kind in TABLE]), count("all", every)]


def summary(found: list[Record]) -> Iterator[str]:
    """How many goals of each kind are met, what is asked of the table, and every goal that is not met."""
    for c in counts(found):
        if not c.all:
            continue
        tuned = f" ({c.tuned} of them only as tuned)" if c.tuned else ""
        missing = f", {c.missing} not run" if c.missing else ""
        line = f"{c.kind}: {c.met} of {c.all} met{tuned}{missing}; {c.far} beyond {FAR} times the goal"
        if c.kind == "table":
            good = c.met >= ENOUGH * c.all and not c.far and not c.missing
            line += (
                f"; {c.met / c.all:.0%}, where {ENOUGH:.0%} and none beyond are asked: {'met' if good else 'missed'}"
            )
        yield line
    for v in verdicts(found):
        if v.word in ("missed", "not run"):
            far = f", beyond {FAR} times" if v.share is not None and v.share > FAR else ""
            yield f"{v.word}{far}: {v.kind}, {v.name}: {v.figure}"
