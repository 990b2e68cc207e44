"""The results of a benchmark run as tables, JSON files and plots."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goals import (
    CACHED_LIMIT_MS,
    FAMILY_LIMIT_MS,
    FAMILY_RATIO,
    FLAT,
    PRODUCT,
    THREADS_GOAL,
    of_row,
    product_rate,
    scaling,
    spreads,
    summary,
)
from rich.console import Console
from rich.table import Table

Record = dict[str, Any]

PEERS = ("torch", "torch.compile", "NumPy", "interpreter")


def peers(rows: list[Record]) -> list[str]:
    """The contenders of these rows: the usual ones first."""
    named = dict.fromkeys(p for r in rows for p in r["ratio"])
    return [p for p in PEERS if p in named] + [p for p in named if p not in PEERS]


def ratio_text(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.01 else f"1/{1 / ratio:,.0f}"


def _cell(record: Record, peer: str) -> str:
    if peer not in record["ratio"]:
        return "-"
    ratio = record["ratio"][peer]
    text = f"{record['ms'][peer]:,.3f} [{'green' if ratio <= 1 else 'yellow'}]{ratio_text(ratio)}[/]"
    tuned = record["ratio_tuned"].get(peer)
    return text if tuned is None else f"{text} ({ratio_text(tuned)})"


def _goal(record: Record, factor: float | None) -> str:
    """What the row was to reach: against others on one thread, against one thread on two."""
    colours = {"met": "green", "met, tuned": "green", "missed": "red", "not run": "yellow"}
    if record["threads"] == 1:
        return "\n".join(f"{limit:.2f} of {peer}: [{colours[w]}]{w}[/]" for peer, limit, _, _, w in of_row(record))
    if factor is None:
        return ""
    if record["threads"] != 2:
        return f"{factor:.2f} times one"
    goal = THREADS_GOAL[record["bound"]]
    word = "met" if factor >= goal else "missed"
    return f"{factor:.2f} times one, goal {goal}: [{colours[word]}]{word}[/]"


def _kernel_table(rows: list[Record], threads: int, factors: dict[str, float]) -> Table:
    title = (
        f"{threads} thread{'s' * (threads != 1)}: milliseconds, and ours / theirs (below 1: ours is faster); in "
        "brackets with the autotuner's choice"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("kernel", min_width=28)
    table.add_column("ours", justify="right")
    table.add_column("tuned", justify="right")
    columns = peers(rows)
    for peer in columns:
        table.add_column(peer, justify="right")
    table.add_column("goal")
    for record in rows:
        tuned = record["ms"].get("tuned")
        table.add_row(
            record["name"], f"{record['ms']['ours']:,.3f}", "" if tuned is None else f"{tuned:,.3f}",
            *(_cell(record, p) for p in columns), _goal(record, factors.get(record["name"])),
        )  # fmt: skip
    return table


def lines(found: list[Record]) -> Iterator[str]:
    """What is not in the big table, a line each."""
    for record in found:
        match record:
            case {"kind": "compile", "name": name, "ms": ms, "limit": limit, "arena_bytes": arena}:
                word = "met" if ms <= limit else "missed"
                yield f"cold compile, {name}: {ms:.0f} ms; goal {limit:.0f}: {word}; arena {arena:,} bytes"
            case {"kind": "family", "name": name, "sizes": sizes, "small_ms": small, "large_ms": large}:
                word = "met" if large <= FAMILY_RATIO * small and max(small, large) <= FAMILY_LIMIT_MS else "missed"
                yield f"compile, {name}, tiles of {sizes}: {small:.0f} and {large:.0f} ms, {large / small:.2f}: {word}"
            case {"kind": "cached", "name": name, "ms": ms, "front_end_ms": front, "cold_ms": cold}:
                word = "met" if ms - front <= CACHED_LIMIT_MS else "missed"
                yield (
                    f"first launch from the cache, {name}: {ms:.1f} ms, of it {front:.1f} in Triton's front end "
                    f"(cold {cold:.0f}); goal {CACHED_LIMIT_MS:.0f} beyond it: {word}"
                )
            case {"kind": "launch", "name": name, "us": us, "limit": limit}:
                word = "" if limit is None else f"; goal {limit:.1f}: " + ("met" if us <= limit else "missed")
                yield f"warm {name}: {us:.2f} us{word}"
            case {"kind": "ceiling", "name": name, "per_second": rate, "unit": unit}:
                yield f"ceiling, {name}: {rate / 1e9:.1f} G{unit}"
            case {"kind": "failed", "name": name, "why": why}:
                yield f"failed: {name}: {why}"
            case {"kind": "row"}:
                for peer, why in record["left_out"].items():
                    yield f"{record['name']}: no {peer} ({why})"
                if record["chosen"] and record["chosen"] != record["typical"]:
                    yield f"{record['name']}: tuned to {record['chosen']} from {record['typical']}"
                if record["note"]:
                    yield f"{record['name']}: {record['note']}"


def sweep_lines(found: list[Record]) -> Iterator[str]:
    """Whether cost grows with work: for each kernel of a sweep, and for products."""
    for s in spreads(found):
        theirs = "" if s.theirs is None else f"; torch {s.theirs:.2f}"
        word = "met" if s.alone <= FLAT else "missed"
        yield (
            f"time an element, {s.kernel}: the dearest (size {s.dearest}) is {s.alone:.2f} times the cheapest "
            f"(size {s.cheapest}), {s.launched:.2f} with the price of a launch{theirs}; goal {FLAT}: {word}"
        )
    product = product_rate(found)
    if product:
        word = "met" if product[0] >= PRODUCT else "missed"
        yield f"matmul f32: {product[1]} has {product[0]:.2f} of the flops a second of 512; goal {PRODUCT}: {word}"


def print_tables(found: list[Record], console: Console) -> None:
    """Everything that was measured, to the terminal."""
    rows = [r for r in found if r["kind"] == "row"]
    for threads in dict.fromkeys(r["threads"] for r in rows):
        factors = {r["name"]: factor for r, factor in scaling(rows) if r["threads"] == threads}
        console.print(_kernel_table([r for r in rows if r["threads"] == threads], threads, factors))
    for line in lines(found):
        failed = line.startswith("failed")
        console.print(line, style="red" if failed else "", highlight=False, markup=False)
    for line in (*sweep_lines(found), *summary(found)):
        missed = line.startswith(("missed", "not run")) or line.endswith("missed")
        console.print(line, style="red" if missed else "", highlight=False, markup=False)


def write(found: list[Record], machine: Record, folder: Path) -> list[Path]:
    """Write `bench.json`, a copy under the date, and the plots that the results allow; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine, "results": found}, indent=1) + "\n"
    paths = [folder / "bench.json", folder / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"]
    for path in paths:
        path.write_text(text)
    rows = [r for r in found if r["kind"] == "row" and r["threads"] == 1]
    try:
        import plots
    except ImportError:  # matplotlib is not there: the figures are worth having without
        return paths
    if rows:
        paths.append(plots.ratios(rows, folder / "bench.png"))
    ceilings = {r["name"]: r["per_second"] for r in found if r["kind"] == "ceiling"}
    if rows and len(ceilings) == 2:
        paths.append(plots.roofline(rows, ceilings, folder / "roofline.png"))
    sweeps = [r for r in found if r["kind"] == "sweep"]
    if sweeps:
        paths.append(plots.sweep(sweeps, folder / "sweep.png"))
    return paths
