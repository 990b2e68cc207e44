"""The results of a benchmark run as tables, a JSON file and a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Record = dict[str, Any]

PEERS = ("torch", "torch.compile", "NumPy", "interpreter")
COMPILE_GOAL_MS = 150.0
LAUNCH_GOAL_US = 8.0
TWO_THREADS_GOAL = 1.5


def _ratio(record: Record, peer: str) -> str:
    if peer not in record["ratio"]:
        return "-"
    ratio = record["ratio"][peer]
    text = f"{ratio:.2f}" if ratio >= 0.01 else f"1/{1 / ratio:,.0f}"
    colour = "green" if ratio <= 1 else "yellow"
    return f"{record['ms'][peer]:,.3f} [{colour}]{text}[/]"


def _goal(record: Record) -> str:
    if record["goal"] is None or record["threads"] != 1:
        return ""
    peer, limit = record["goal"]
    met = record["ratio"].get(peer, float("inf")) <= limit
    return f"{limit:.2f} of {peer}: " + ("[green]met[/]" if met else "[red]missed[/]")


def _kernel_table(rows: list[Record], threads: int) -> Table:
    title = f"{threads} thread{'s' * (threads != 1)}: milliseconds, and ours / theirs (below 1: ours is faster)"
    table = Table(title=title, title_justify="left")
    table.add_column("kernel", min_width=28)
    table.add_column("ours", justify="right")
    for peer in PEERS:
        table.add_column(peer, justify="right")
    table.add_column("goal")
    for record in rows:
        table.add_row(
            record["name"], f"{record['ms']['ours']:,.3f}", *(_ratio(record, p) for p in PEERS), _goal(record)
        )
    return table


def scaling(rows: list[Record]) -> Iterator[tuple[str, int, float]]:
    """(row, threads, times as fast as with one thread) for every row measured with one thread and with more."""
    single = {r["name"]: r["ms"]["ours"] for r in rows if r["threads"] == 1}
    for record in rows:
        if record["threads"] != 1 and record["name"] in single:
            yield record["name"], record["threads"], single[record["name"]] / record["ms"]["ours"]


def print_tables(found: list[Record], console: Console) -> None:
    """Everything that was measured, to the terminal."""
    rows = [r for r in found if r["kind"] == "row"]
    for threads in dict.fromkeys(r["threads"] for r in rows):
        console.print(_kernel_table([r for r in rows if r["threads"] == threads], threads))
    for name, threads, factor in scaling(rows):
        goal = ""
        if name.startswith("matmul") and threads == 2:
            goal = f"; goal {TWO_THREADS_GOAL}: " + ("met" if factor >= TWO_THREADS_GOAL else "missed")
        console.print(f"{name}: {threads} threads are {factor:.2f} times as fast as one{goal}")
    for record in found:
        match record:
            case {"kind": "compile", "name": name, "ms": ms}:
                verdict = "met" if ms <= COMPILE_GOAL_MS else "missed"
                console.print(f"cold compile, {name}: {ms:.0f} ms; goal {COMPILE_GOAL_MS:.0f}: {verdict}")
            case {"kind": "launch", "name": name, "us": us}:
                console.print(f"warm {name}: {us:.1f} us")
            case {"kind": "failed", "name": name, "why": why}:
                console.print(f"[red]failed[/] {name}: {why}", highlight=False)
            case {"kind": "row"}:
                for peer, why in record["left_out"].items():
                    console.print(f"{record['name']}: no {peer} ({why})", style="dim", highlight=False)
                if record["note"]:
                    console.print(f"{record['name']}: {record['note']}", style="dim", highlight=False)


def _plot(rows: list[Record], path: Path) -> None:
    """Bars: how many times as fast as each contender ours is, one thread; the line at 1 is a draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    peers = [p for p in PEERS if p != "interpreter" and any(p in r["ratio"] for r in rows)]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.55 * len(rows)), layout="constrained")
    height = 0.8 / max(1, len(peers))
    for i, peer in enumerate(peers):
        have = [(n + i * height, 1 / r["ratio"][peer]) for n, r in enumerate(rows) if peer in r["ratio"]]
        # From 1 outwards: to the right where ours is faster, to the left where it is slower.
        bars = axes.barh([y for y, _ in have], [v - 1 for _, v in have], height, left=1, label=f"than {peer}")
        axes.bar_label(bars, [f"{v:.2g}" for _, v in have], padding=3, fontsize=8)
    axes.set_yticks([n + height * (len(peers) - 1) / 2 for n in range(len(rows))], [r["name"] for r in rows])
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.margins(x=0.1)
    axes.set_xlabel("how many times faster (1 thread, log scale; below 1: slower)")
    axes.legend(loc="best")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def write(found: list[Record], machine: Record, folder: Path) -> list[Path]:
    """Write `bench.json` and, where there are one-thread rows, `bench.png`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "bench.json"
    data.write_text(json.dumps({"machine": machine, "results": found}, indent=1) + "\n")
    rows = [r for r in found if r["kind"] == "row" and r["threads"] == 1]
    if not rows:
        return [data]
    _plot(rows, folder / "bench.png")
    return [data, folder / "bench.png"]
