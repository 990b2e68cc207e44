"""Time against size: memory-bound kernels from the first cache to beyond the last, products from small to large."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from measure import clock_for, interleaved
from suite import elementwise, products, reductions
from suite.row import Row

Record = dict[str, Any]
CEILING = 26  # 2^26 elements: three arrays of 256 MB


def sizes(quick: bool) -> Iterator[tuple[str, int, float, str, Callable[[], Row]]]:
    """(kernel, size, units of work, what a unit is, what makes the row)."""
    for exponent in range(10, 15 if quick else CEILING + 1, 2):
        n = 1 << exponent
        yield "add", n, n, "element", partial(elementwise.add, n, f"2^{exponent}", 1.0)
        if exponent <= 24:
            yield "gelu", n, n, "element", partial(elementwise.gelu, n)
    for exponent in range(6, 9 if quick else 14):
        m = 1 << exponent
        yield "softmax of 1024", m, m * 1024, "element", partial(reductions.softmax, m, 1024)
    for size in (64, 128) if quick else (64, 128, 256, 512, 1024, 2048):
        yield "matmul f32", size, 2.0 * size**3, "flop", partial(products.matmul, size, 1.0, products.BLOCKS[1])


def sweep_rows(options: argparse.Namespace) -> Iterator[Record]:
    """Ours and torch's own function at each size; no autotuner, no torch.compile."""
    for kernel, size, units, unit, make in sizes(options.quick):
        if options.only and not any(wanted in kernel for wanted in options.only):
            continue
        row = make()
        theirs = row.peers.get("torch") or (row.torch(lambda function: function) if row.torch else None)
        calls = {"ours": row.call(), **({"torch": theirs} if theirs else {})}
        timings = interleaved(calls, options.rounds, clock_for(options.threads[0]), enough=0.002)
        yield {
            "kind": "sweep", "name": f"{kernel} {size}", "kernel": kernel, "size": size, "units": units, "unit": unit,
            "ms": {name: t.seconds * 1e3 for name, t in timings.items()},
        }  # fmt: skip
