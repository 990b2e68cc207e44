"""What a user sees of a comparison: a table, a paragraph, JSON, a plot."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import OmnikernelError
from .verdict import Measured, Timing, Verdict


class PlotError(OmnikernelError):
    """A plot was asked for where there is no matplotlib."""


def described(value: Any) -> str:
    """An argument in a few words: dtype and shape of a tensor, the value of anything else."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{'x'.join(map(str, value.shape))}]"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(described(item) for item in value)}]"
    return repr(value)


def arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """A call's arguments in a few words."""
    return ", ".join([*map(described, args), *(f"{name}={described(value)}" for name, value in kwargs.items())])


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _contenders(measured: Measured) -> list[tuple[str, Timing, str]]:
    made = measured.made
    calls = f" + {len(made.calls)} calls" if made.calls else ""
    return [
        ("torch, eager", measured.eager, ""),
        ("torch.compile", measured.compiled, f"{made.kernels}{calls}"),
        (measured.operator, measured.ours, ""),
    ]


def show(measured: Measured, verdict: Verdict, heading: str) -> None:
    """Print the table and the paragraph to standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("median", "ours / it", "of the ceiling", "GB/s", "kernels"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [*_contenders(measured), ("a copy of as many bytes", measured.copy, "")]
    for name, timing, kernels in rows:
        share = "" if timing is measured.copy else f"{measured.floor / timing.seconds:.0%}"
        ratio = "" if timing is measured.ours else f"{measured.ours.seconds / timing.seconds:.2f}"
        rate = f"{measured.least_bytes / timing.seconds / 1e9:.1f}"
        table.add_row(name, _duration(timing.seconds), ratio, share, rate, kernels)
    console = Console()
    console.print(heading, highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(table)
    console.print()
    facts = [f"{_bytes(measured.least_bytes)} of inputs and results"]
    if measured.made.moved is not None:
        facts.append(f"Inductor's program moves {_bytes(measured.made.moved)}")
    if measured.flops:
        facts.append(
            f"{measured.flops / 1e9:.3g} Gflop of matrix products, {measured.flop_rate / 1e9:.0f} Gflop/s at most"
        )
    agreement = measured.agreement
    if not agreement.fault:
        facts.append(f"largest difference {agreement.largest:.2g} (rtol {agreement.rtol:g}, atol {agreement.atol:g})")
    console.print("; ".join(facts) + ".", highlight=False, soft_wrap=True)
    console.print()
    console.print(textwrap.fill(verdict.text, min(100, console.width)), highlight=False, markup=False)


def _bytes(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} bytes"


def write_json(path: Path, measured: Measured, verdict: Verdict, conditions: Mapping[str, Any]) -> None:
    """Write all that was measured, every round, and the verdict."""
    record = {**conditions, **asdict(measured), "floor_seconds": measured.floor, "verdict": asdict(verdict)}
    for name in ("eager", "compiled", "ours", "copy"):
        record[name]["seconds"] = getattr(measured, name).seconds
    path.write_text(json.dumps(record, indent=1) + "\n")


def pyplot() -> Any:
    """Matplotlib's drawing functions, for files.

    Raises:
        PlotError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as found
    except ImportError as error:
        raise PlotError("a plot needs matplotlib: pip install matplotlib") from error
    return found


def plot(path: Path, measured: Measured, heading: str) -> None:
    """Draw the times as bars beside the ceiling.

    Raises:
        PlotError: matplotlib is not installed.
    """
    drawing = pyplot()
    rows = _contenders(measured)[::-1]
    figure, axes = drawing.subplots(figsize=(8, 2.6), layout="constrained")
    times = [timing.seconds * 1e3 for _, timing, _ in rows]
    bars = axes.barh([name for name, _, _ in rows], times, color=["#2a6fbb", "#8a8a8a", "#c9c9c9"])
    axes.bar_label(bars, [_duration(timing.seconds) for _, timing, _ in rows], padding=3)
    axes.axvline(measured.floor * 1e3, color="#b03030", linestyle="--", label="ceiling of the machine")
    axes.set(xlabel="milliseconds (median)", title=heading, xlim=(0, max(times) * 1.15))
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=150)
    drawing.close(figure)
