"""What is not the kernel's own work: compiling it, finding it in the cache, and launching it; and the machine's ceilings."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import cases
import numpy as np
import vector_add
from kernels.families import FAMILIES, product
from measure import clock_for, interleaved
from sweep import sweep_rows

import omnikernel

Record = dict[str, Any]
COMPILES = 9  # a kernel, of which the median is taken
SLOW = 0.5  # seconds: a compile that takes longer is not repeated


def _compiles(*texts: str) -> list[Record]:
    """Milliseconds on the wall from TTIR text to object code, without a cache, and what came out.

    Median over compiles of the texts in turns, so that they can be compared. LLVM's part of a large kernel is done by two
    threads.
    """
    from omnikernel import pipeline

    options, clock = pipeline.Options(disjoint=True), clock_for(2)

    def timed(text: str) -> float:
        start = clock()
        pipeline.compile_text(text, options)
        return clock() - start

    artefacts = [pipeline.compile_text(text, options) for text in texts]  # the first of a process also sets up LLVM
    rounds = [[timed(text) for text in texts]]
    if max(rounds[0]) < SLOW:
        rounds += [[timed(text) for text in texts] for _ in range(COMPILES - 1)]
    return [
        {"ms": median(seconds) * 1e3, "arena_bytes": artefact.arena_bytes, "code_bytes": len(artefact.object)}
        for seconds, artefact in zip(zip(*rounds, strict=True), artefacts, strict=True)
    ]


def compile_rows(options: argparse.Namespace) -> Iterator[Record]:
    """Every kernel of the table at its typical constants: what compiling it costs, and its scratch memory a thread."""
    full, quick = cases.makers("full"), cases.makers("quick")
    seen: set[str] = set()
    for key, make in quick.items():
        row = make() if key not in ("matmul-512", "matmul-2048") else None
        if row is None or key not in full:
            continue
        compiled = row.call()()
        for kernel, launch in zip(compiled if isinstance(compiled, tuple) else (compiled,), row.launches, strict=True):
            text = kernel.asm["ttir"]
            text = text.decode() if isinstance(text, bytes) else text
            constants = ", ".join(f"{k}={v}" for k, v in {**launch.fixed, **launch.typical}.items())
            name = f"{launch.kernel.__name__} ({key}): {constants}"
            if text in seen:
                continue
            seen.add(text)
            limit = 120.0 if key == "attention-backward" else 60.0
            yield {"kind": "compile", "name": name, "limit": limit, **_compiles(text)[0]}


def family_rows(options: argparse.Namespace) -> Iterator[Record]:
    """Each operation family at two tiles of very different size: the cost must hardly differ."""
    from omnikernel.frontend import ttir_text

    signature = "*fp32:16,*fp32:16,i32"

    def measured(name: str, kernel: Any, small: Mapping[str, int], large: Mapping[str, int], label: str) -> Record:
        a, b = _compiles(*(ttir_text(kernel, signature, dict(c)) for c in (small, large)))
        return {
            "kind": "family", "name": name, "sizes": label, "small_ms": a["ms"], "large_ms": b["ms"],
            "arena_bytes": [a["arena_bytes"], b["arena_bytes"]],
        }  # fmt: skip

    for name, kernel in FAMILIES.items():
        yield measured(name, kernel, {"BLOCK": 128}, {"BLOCK": 65536}, "128, 65536")
    small, large = ({"M": n, "N": n, "K": n} for n in (16, 128))
    yield measured("dot", product, small, large, "16^3, 128^3")


def cached_rows(options: argparse.Namespace) -> Iterator[Record]:
    """First launches of kernels that an earlier process compiled: milliseconds a launch, in a process of its own."""
    names = ("add-20", "gelu", "softmax-1024", "rms_norm", "column_norms", "matmul-1024", "attention-f32", "stencil")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "OMNIKERNEL_CACHE_DIR": f"{folder}/ours", "TRITON_CACHE_DIR": f"{folder}/triton"}
        command = [sys.executable, str(Path(__file__).resolve()), *names]
        found: list[dict[str, list[float]]] = []
        for _ in range(1 + 3):
            text = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
            found.append(json.loads(text.splitlines()[-1]))
    for name in names:
        cold = found[0][name]
        first, front = (median(run[name][i] for run in found[1:]) for i in range(2))
        yield {
            "kind": "cached", "name": name, "cold_ms": cold[0], "ms": first, "front_end_ms": front,
            "position": names.index(name),
        }  # fmt: skip


def _first_launches(names: list[str]) -> None:
    """In the other process: milliseconds of processor time of each row's first launch, and of Triton's front end in it."""
    from triton.compiler import compiler

    spent = [0.0]
    make_ir = compiler.ASTSource.make_ir

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return make_ir(*args, **kwargs)
        finally:
            spent[0] += time.process_time() - start

    compiler.ASTSource.make_ir = timed
    vector_add.add(*np.ones((2, 8), np.float32))  # what a process does once
    found = {}
    for name in names:
        call = cases.makers("quick")[name]().call()
        spent[0] = 0.0
        start = time.process_time()
        call()
        took = time.process_time() - start
        steady = min(_seconds(call) for _ in range(5))
        found[name] = [(took - steady) * 1e3, spent[0] * 1e3]
    print(json.dumps(found))


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def launch_rows(options: argparse.Namespace) -> Iterator[Record]:
    """Microseconds of a warm launch of 16 elements on three arrays, all of it: arguments, call, return."""
    kernel = vector_add.add_kernel
    arrays = np.ones((3, 16), np.float32)
    launcher = kernel[(1,)]
    x, y, out = arrays
    prepared = omnikernel.prepare(kernel, (1,), x, y, out, 16, BLOCK=16)
    calls = {
        "NumPy": lambda: launcher(x, y, out, 16, BLOCK=16),
        "NumPy, prepared": lambda: prepared(x, y, out, 16),
        "NumPy, prepared, the same arrays": prepared,
    }
    try:
        from suite.row import tensors

        tx, ty, tout = tensors(x, y, out)
        ready = omnikernel.prepare(kernel, (1,), tx, ty, tout, 16, BLOCK=16)
        calls["torch"] = lambda: launcher(tx, ty, tout, 16, BLOCK=16)
        calls["torch, prepared"] = lambda: ready(tx, ty, tout, 16)
        calls["torch, prepared, the same tensors"] = ready
    except ImportError:
        pass
    stock = getattr(type(kernel).run, "__wrapped__", None)
    if stock is not None:  # Triton's own way to our launcher, without the shortcut
        calls["stock"] = lambda: stock(kernel, x, y, out, 16, grid=(1,), warmup=False, BLOCK=16)
    native = not os.environ.get("OMNIKERNEL_NO_NATIVE")
    for name, timing in interleaved(calls, options.rounds, clock_for(1), enough=0.02).items():
        way = "on NumPy, through Triton's own run()" if name == "stock" else f"on {name}"
        record = {"name": f"launch of 16 elements {way}, {'with' if native else 'without'} the C extension"}
        limit = None if name == "stock" or not native else 1.5 if "prepared" in name else 3.0
        yield {"kind": "launch", **record, "us": timing.seconds * 1e6, "limit": limit}


def ceiling_rows(options: argparse.Namespace) -> Iterator[Record]:
    """The machine: bytes a second read and written beyond the last cache (NumPy's copy), and flops a second (BLAS)."""
    n = 1 << (20 if options.quick else 25)
    source, target = np.ones(n, np.float32), np.ones(n, np.float32)
    size = 256 if options.quick else 1024
    a, b, c = np.ones((3, size, size), np.float32)
    calls = {"memory": lambda: np.copyto(target, source), "arithmetic": lambda: np.matmul(a, b, c)}
    timings = interleaved(calls, options.rounds, clock_for(1))
    yield {"kind": "ceiling", "name": "memory", "per_second": 8.0 * n / timings["memory"].seconds, "unit": "byte/s"}
    flops = 2.0 * size**3 / timings["arithmetic"].seconds
    yield {"kind": "ceiling", "name": "arithmetic", "per_second": flops, "unit": "flop/s"}


PARTS: Mapping[str, Callable[[argparse.Namespace], Iterator[Record]]] = {
    "compile": compile_rows,
    "families": family_rows,
    "cached": cached_rows,
    "launch": launch_rows,
    "ceilings": ceiling_rows,
    "sweep": sweep_rows,
}

if __name__ == "__main__":
    _first_launches(sys.argv[1:])
