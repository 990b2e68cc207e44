"""Plots of benchmark results. In: records of a run. Out: PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

Record = dict[str, Any]


def ratios(rows: list[Record], path: Path) -> Path:
    """Points: how many times as fast as each contender ours is, one thread; the line at 1 is a draw.

    Filled with the typical block size, hollow with the autotuner's choice; a short bar where the goal is.
    """
    names = list(dict.fromkeys(p for r in rows for p in r["ratio"] if p != "interpreter"))
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.28 * len(rows)), layout="constrained")
    for i, peer in enumerate(names):
        for key, fill in (("ratio", f"C{i}"), ("ratio_tuned", "none")):
            have = [(1 / r[key][peer], n) for n, r in enumerate(rows) if peer in r[key]]
            if have:
                label = f"than {peer}" if key == "ratio" else None
                axes.scatter(*zip(*have, strict=True), s=28, facecolors=fill, edgecolors=f"C{i}", label=label, zorder=3)
        goals = [(1 / limit, n) for n, r in enumerate(rows) for p, limit in r["goals"] if p == peer]
        if goals:
            axes.scatter(*zip(*goals, strict=True), marker="|", s=90, color=f"C{i}", zorder=2)
    axes.set_yticks(range(len(rows)), [r["name"] for r in rows], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}" if axes.get_xlim()[1] < 20 * axes.get_xlim()[0] else "")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.grid(axis="both", linewidth=0.3)
    axes.set_xlabel("times as fast, 1 thread (hollow: autotuned; bar: the goal)")
    axes.legend(loc="best", fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def roofline(rows: list[Record], ceilings: dict[str, float], path: Path) -> Path:
    """Flops a second against flops a byte of memory; the roof is what NumPy's copy and BLAS reach on one thread.

    Points above the slanted roof are of kernels whose data stays in a cache.
    """
    import numpy as np

    figure, axes = pyplot.subplots(figsize=(9, 6), layout="constrained")
    x = np.geomspace(0.05, 500, 100)
    roof = np.minimum(x * ceilings["memory"], ceilings["arithmetic"]) / 1e9
    axes.loglog(x, roof, color="black", linewidth=1)
    for record in rows:
        if record["flops"] and record["bytes"]:
            intensity = record["flops"] / record["bytes"]
            best = min(record["ms"]["ours"], record["ms"].get("tuned", float("inf")))
            rate = record["flops"] / best / 1e6
            axes.scatter([intensity], [rate], s=20, color="C0")
            axes.annotate(record["key"], (intensity, rate), fontsize=6, xytext=(3, 3), textcoords="offset points")
    axes.set_xlabel("flops a byte (inputs read once, outputs written once)")
    axes.set_ylabel("Gflop/s, one thread")
    axes.grid(which="major", linewidth=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def sweep(records: list[Record], path: Path) -> Path:
    """Time an element (or flop) against size, one panel a kernel, ours and the contender."""
    kernels = list(dict.fromkeys(r["kernel"] for r in records))
    figure, grid = pyplot.subplots(
        1, len(kernels), figsize=(4 * len(kernels), 3.5), layout="constrained", squeeze=False
    )
    for axes, kernel in zip(grid[0], kernels, strict=True):
        mine = [r for r in records if r["kernel"] == kernel]
        for name in mine[0]["ms"]:
            have = [(r["size"], r["ms"][name] * 1e6 / r["units"]) for r in mine]
            axes.loglog(*zip(*have, strict=True), marker=".", label=name)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter("")
        axes.set_title(kernel)
        axes.set_xlabel("size")
        axes.set_ylabel(f"ns a {mine[0]['unit']}")
        axes.grid(which="major", linewidth=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path
