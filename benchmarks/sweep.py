"""Time against size: memory-bound kernels from the first cache to beyond the last, products from small to large.

An element should cost the same at every size that fills the first cache and fits the last (`goals.FLAT`), and a large
product should run as fast as one of 512 (`goals.PRODUCT`). A launch has its own price and its own goal, and what fills
the first cache takes less than that; so the kernel is also timed without it, in launches that do the same work many
times over.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from measure import clock_for, interleaved
from suite import elementwise, products, reductions
from suite.row import Row

from omnikernel.llvm.jit import host_target
from omnikernel.processors import cache_sizes

Record = dict[str, Any]
CEILING = 26  # 2^26 elements: three arrays of 256 MB
ALONE = 1 << 20  # elements that a launch of the kernel alone goes through: hundreds of times its price


FLAT: dict[str, Callable[[int], Row]] = {
    "add": lambda n: elementwise.add(n, str(n), 1.0),
    "relu(a+b)*b": elementwise.relu_mul,
    "gelu": elementwise.gelu,
    "swiglu": elementwise.swiglu,
}
ROWS: dict[str, Callable[[int], Row]] = {
    "softmax of 1024": lambda m: reductions.softmax(m, 1024),
    "layer norm of 1024": lambda m: reductions.layer_norm(m, 1024),
    "rms norm of 1024": lambda m: reductions.rms_norm(m, 1024),
    "cumsum of 1024": lambda m: reductions.cumsum(m, 1024),
}


def sizes(quick: bool) -> Iterator[tuple[str, int, float, str, Callable[[], Row]]]:
    """(kernel, size, units of work, what a unit is, what makes the row)."""
    for exponent in range(10, 15 if quick else CEILING + 1, 2):
        n = 1 << exponent
        for name, flat in FLAT.items():
            if exponent <= 24 or name == "add":
                yield name, n, n, "element", partial(flat, n)
    for exponent in range(2, 7 if quick else 14, 2):
        m = 1 << exponent
        for name, rows in ROWS.items():
            yield name, m, m * 1024, "element", partial(rows, m)
    for size in (64, 128) if quick else (64, 128, 256, 512, 1024, 2048):
        yield "matmul f32", size, 2.0 * size**3, "flop", partial(products.matmul, size, 1.0, products.BLOCKS[1])


def caches() -> tuple[int, int]:
    """Bytes of the first cache, and what a launch may count on of the last one, as the system tells them, else usual ones."""
    first, *_ = *cache_sizes(), 32 << 10
    return first, host_target().last_cache


def sweep_rows(options: argparse.Namespace) -> Iterator[Record]:
    """Ours and torch's own function at each size, and our kernel alone; no autotuner, no torch.compile."""
    first, last = caches()
    for kernel, size, units, unit, make in sizes(options.quick):
        if options.only and "sweep" not in options.only and not any(wanted in kernel for wanted in options.only):
            continue
        row = make()
        theirs = row.peers.get("torch") or (row.torch(lambda function: function) if row.torch else None)
        calls = {"ours": row.call(), **({"torch": theirs} if theirs else {})}
        times = max(1, int(ALONE // units)) if unit == "element" else 1
        if times > 1:
            calls["alone"] = row.call(times=times)
        timings = interleaved(calls, options.rounds, clock_for(options.threads[0]), enough=0.002)
        alone = timings.pop("alone", timings["ours"]).seconds / times
        yield {
            "kind": "sweep", "name": f"{kernel} {size}", "kernel": kernel, "size": size, "units": units, "unit": unit,
            "ms": {name: t.seconds * 1e3 for name, t in timings.items()}, "alone_ms": alone * 1e3,
            "bytes": row.bytes, "bound": row.bound, "first_cache": first, "last_cache": last,
        }  # fmt: skip
