"""The tables of `docs/performance.md` from a run: `python benchmarks/page.py results/bench.json`.

What stands between the two marks of the page is replaced; the words around it are written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goals import CACHED_LIMIT_MS, FAMILY_LIMIT_MS, FAMILY_RATIO, THREADS_GOAL, counts, of_row, scaling, summary
from report import sweep_lines

Record = dict[str, Any]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
MACHINE = ("date", "platform", "processor", "Python", "LLVM", "triton", "numpy", "torch")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def _number(ms: float | None) -> str:
    return "" if ms is None else f"{ms:.3f}" if ms < 10 else f"{ms:.1f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"


def kernel_table(rows: list[Record]) -> Iterator[str]:
    """One line a goal: the contender, both columns of ours, the ratios, whether the goal is met."""
    yield "| work | against | ours, ms | tuned, ms | theirs, ms | ratio | tuned | goal | |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---|"
    for record in rows:
        for peer, limit, typical, tuned, word in of_row(record):
            what = f"{peer}: {record['note'].split(': ', 1)[1]}" if record["note"].startswith(f"{peer}: ") else peer
            yield (
                f"| {record['name']} | {what} | {_number(record['ms']['ours'])} | {_number(record['ms'].get('tuned'))} "
                f"| {_number(record['ms'].get(peer))} | {_ratio(typical)} "
                f"| {_ratio(tuned)} | {limit:.2f} | {word} |"
            )


def goal_table(found: list[Record]) -> Iterator[str]:
    """How many goals of each kind are met."""
    yield "| goals | met | of them only as tuned | not run | beyond 1.5 times | of |"
    yield "|---|---:|---:|---:|---:|---:|"
    for c in counts(found):
        yield f"| {c.kind} | {c.met} | {c.tuned} | {c.missing} | {c.far} | {c.all} |"
    yield ""
    for line in summary(found):
        if line.startswith(("table:", "all:", "missed", "not run")):
            yield f"* {line}"


def thread_table(faster: list[tuple[Record, float]]) -> Iterator[str]:
    """Times as fast as one thread, time on the wall; the goal for two depends on what the row waits for."""
    yield "| work | bound by | threads | times as fast as one | goal | |"
    yield "|---|---|---:|---:|---:|---|"
    for r, factor in faster:
        goal = THREADS_GOAL[r["bound"]]
        verdict = f"{goal:.2f} | {'met' if factor >= goal else 'missed'}" if r["threads"] == 2 else " | "
        yield f"| {r['name']} | {r['bound']} | {r['threads']} | {factor:.2f} | {verdict} |"


def compile_table(found: list[Record]) -> Iterator[str]:
    yield "| kernel | cold compile, ms | goal | arena, bytes a thread | object code, bytes |"
    yield "|---|---:|---:|---:|---:|"
    for r in found:
        mark = "" if r["ms"] <= r["limit"] else " (missed)"
        yield f"| {r['name']} | {r['ms']:.1f} | {r['limit']:.0f}{mark} | {r['arena_bytes']:,} | {r['code_bytes']:,} |"


def family_table(found: list[Record]) -> Iterator[str]:
    yield "| operations | tiles | small, ms | large, ms | ratio | arena, bytes | |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for r in found:
        ratio = r["large_ms"] / r["small_ms"]
        good = ratio <= FAMILY_RATIO and max(r["small_ms"], r["large_ms"]) <= FAMILY_LIMIT_MS
        arenas = " / ".join(f"{n:,}" for n in r["arena_bytes"])
        word = "met" if good else "missed"
        yield f"| {r['name']} | {r['sizes']} | {r['small_ms']:.1f} | {r['large_ms']:.1f} | {ratio:.2f} | {arenas} | {word} |"


def cached_table(found: list[Record]) -> Iterator[str]:
    yield "| kernel | cold, ms | from the cache, ms | of it Triton's front end, ms | |"
    yield "|---|---:|---:|---:|---|"
    for r in found:
        word = "met" if r["ms"] - r["front_end_ms"] <= CACHED_LIMIT_MS else "missed"
        yield f"| {r['name']} | {r['cold_ms']:.1f} | {r['ms']:.1f} | {r['front_end_ms']:.1f} | {word} |"


def sweep_table(found: list[Record]) -> Iterator[str]:
    """Nanoseconds a unit of work: flat where the cost grows with the work."""
    yield "| kernel | size | unit | ours alone, ns a unit | with its launch | torch |"
    yield "|---|---:|---|---:|---:|---:|"
    for r in found:
        figures = (r["alone_ms"], r["ms"]["ours"], r["ms"]["torch"])
        alone, ours, theirs = (f"{ms * 1e6 / r['units']:.4g}" for ms in figures)
        yield f"| {r['kernel']} | {r['size']} | {r['unit']} | {alone} | {ours} | {theirs} |"


def tables(run: Record) -> Iterator[str]:
    """The generated part of the page."""
    found = run["results"]
    by_kind = {kind: [r for r in found if r["kind"] == kind] for kind in dict.fromkeys(r["kind"] for r in found)}
    all_rows = by_kind.get("row", [])
    rows = [r for r in all_rows if r["threads"] == 1]
    machine = run["machine"]
    yield "Measured: " + "; ".join(f"{k} {machine[k]}" for k in MACHINE if k in machine) + "."
    if counts(found)[-1].all:
        yield from ("", "### Goals", "", *goal_table(found))
    if rows:
        yield from ("", "### Kernels, one thread", "", *kernel_table(rows))
    faster = list(scaling(all_rows))
    if faster:
        yield from ("", "### More threads", "", *thread_table(faster))
    if "compile" in by_kind:
        yield from ("", "### Compiling, and scratch memory", "", *compile_table(by_kind["compile"]))
    if "family" in by_kind:
        yield from ("", "### Compiling by operation family", "", *family_table(by_kind["family"]))
    if "cached" in by_kind:
        yield from ("", "### First launch in a new process", "", *cached_table(by_kind["cached"]))
    if "launch" in by_kind:
        yield from ("", "### Warm launches", "", "| launch | microseconds | goal |", "|---|---:|---:|")
        yield from (
            f"| {r['name']} | {r['us']:.2f} | {'' if r['limit'] is None else r['limit']} |" for r in by_kind["launch"]
        )
    if "sweep" in by_kind:
        yield from ("", "### Time against size", "", *sweep_table(sorted(by_kind["sweep"], key=lambda r: r["kernel"])))
        yield from ("", *(f"* {line}" for line in sweep_lines(found)))
    missing = [(r["name"], r["why"]) for r in by_kind.get("failed", [])]
    missing += [(f"{r['name']}, {peer}", why) for r in rows for peer, why in r["left_out"].items()]
    if missing:
        yield from ("", "### Not measured", "", *(f"* {name}: {why}" for name, why in missing))


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/page.py RESULTS.json")
    run = json.loads(Path(sys.argv[1]).read_text())
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(tables(run)) + f"\n{END}{tail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
