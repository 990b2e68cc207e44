"""What is not the kernel's own work: compiling it once, and launching it each time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import attention
import layer_norm
import matmul
import numpy as np
import softmax
import vector_add
from measure import clock_for, interleaved, median_seconds

# label -> kernel, types of its arguments, constants
KERNELS: Mapping[str, tuple[Any, str, dict[str, Any]]] = {
    "vector add, BLOCK=128": (vector_add.add_kernel, "*fp32:16,*fp32:16,*fp32:16,i32", {"BLOCK": 128}),
    "vector add, BLOCK=65536": (vector_add.add_kernel, "*fp32:16,*fp32:16,*fp32:16,i32", {"BLOCK": 65536}),
    "softmax, BLOCK=128": (softmax.softmax_kernel, "*fp32:16,*fp32:16,i32,i32,i32", {"BLOCK": 128}),
    "softmax, BLOCK=65536": (softmax.softmax_kernel, "*fp32:16,*fp32:16,i32,i32,i32", {"BLOCK": 65536}),
    "layer norm": (layer_norm.forward_kernel, "*fp32:16," * 6 + "i32,i32,i32,fp32", {"BLOCK": 1024}),
    "layer norm backward": (
        layer_norm.backward_locked_kernel,
        "*fp32:16," * 8 + "*i32:16,i32,i32",
        {"SLOTS": 16, "BLOCK": 1024},
    ),
    "matmul, 64x64x32": (
        matmul.matmul_tile_kernel,
        "*fp32:16," * 3 + "i32,i32,i32,i32:16,i32:1,i32:16,i32:1,i32:16,i32:1",
        {"ACTIVATION": "", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 8},
    ),
    "attention, 64x64": (
        attention.attention_kernel,
        "*fp32:16," * 4 + "i32:16," * 12 + "i32,i32,fp32",
        {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64},
    ),
}


def compile_rows(rounds: int) -> Iterator[dict[str, Any]]:
    """Milliseconds from TTIR text to object code, median over fresh compiles: no cache takes part."""
    from omnikernel import pipeline
    from omnikernel.frontend import ttir_text

    for name, (kernel, signature, constants) in KERNELS.items():
        text = ttir_text(kernel, signature, constants)
        options = pipeline.Options(disjoint=True)
        pipeline.compile_text(text, options)  # the first compile of a process also sets up LLVM
        seconds = median_seconds(
            lambda text=text, options=options: pipeline.compile_text(text, options), rounds, clock_for(1)
        )
        yield {"name": name, "ms": seconds * 1e3}


def launch_rows(rounds: int) -> Iterator[dict[str, Any]]:
    """Microseconds of a warm launch of 16 elements on three NumPy arrays, all of it: arguments, call, return."""
    x, y, out = np.ones((3, 16), np.float32)
    kernel = vector_add.add_kernel
    launcher = kernel[(1,)]
    calls = {"ours": lambda: launcher(x, y, out, 16, BLOCK=16)}
    stock = getattr(type(kernel).run, "__wrapped__", None)
    if stock is not None:  # Triton's own way to our launcher, without the shortcut
        calls["stock"] = lambda: stock(kernel, x, y, out, 16, grid=(1,), warmup=False, BLOCK=16)
    path = "without" if os.environ.get("OMNIKERNEL_NO_NATIVE") else "with"
    for name, timing in interleaved(calls, rounds, clock_for(1), enough=0.02).items():
        way = " through Triton's own run()" if name == "stock" else ""
        yield {"name": f"launch of 16 elements{way}, {path} the C extension", "us": timing.seconds * 1e6}
