"""What a call of an operator costs, and what a training step does: `python benchmarks/operators.py [calls] [step]`.

Calls: microseconds on 16 elements, the median and the least of many runs in one process. Step: milliseconds of processor
time, on one thread, of a training step of the example transformer under torch.compile, with the example operators and with
torch's own functions, in turn.
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests" / "operators")]


def microseconds(call: Callable[[], Any], number: int = 50, budget: float = 0.5) -> tuple[float, float]:
    """Median and least time of a call, over runs of `number` calls that take `budget` seconds together."""
    call()
    runs: list[float] = []
    while sum(runs) < budget or len(runs) < 5:
        runs.append(timeit.timeit(call, timer=time.process_time, number=number))
    return median(runs) / number * 1e6, min(runs) / number * 1e6


def calls() -> None:
    """Overhead of a call, by library."""
    import jax
    import jax.numpy as jnp
    import torch
    from declared import scale
    from operators import gelu
    from operators.gelu import gelu_kernel

    array = np.linspace(-3, 3, 16, dtype=np.float32)
    out, tensor = np.empty_like(array), torch.from_numpy(array)
    leaf, value = tensor.clone().requires_grad_(), jnp.asarray(array)
    jitted, native = jax.jit(scale), jax.jit(lambda x: x * 2)
    rows: dict[str, Callable[[], Any]] = {
        "kernel[grid] on NumPy": lambda: gelu_kernel[(1,)](array, out, 16, BLOCK=1024),
        "operator, NumPy": lambda: gelu(array),
        "operator, NumPy, triton.cdiv": lambda: scale(array),
        "operator, torch, no grad": lambda: gelu(tensor),
        "operator, torch.ops": lambda: torch.ops.operators.gelu(tensor),
        "operator, torch, with grad": lambda: gelu(leaf),
        "torch.nn.functional.gelu": lambda: torch.nn.functional.gelu(tensor),
        "operator, JAX eager": lambda: gelu(value).block_until_ready(),
        "operator x * 2 in jax.jit": lambda: jitted(value).block_until_ready(),
        "x * 2 in jax.jit": lambda: native(value).block_until_ready(),
    }
    print(f"{'16 elements, us':32} {'median':>8} {'least':>8}")
    for name, call in rows.items():
        typical, least = microseconds(call)
        print(f"{name:32} {typical:8.2f} {least:8.2f}")


def step() -> None:
    """A training step under torch.compile, with our operators and with torch's functions."""
    import torch
    from operators.block import Sizes
    from training import plain_torch, torch_step

    import omnikernel

    torch.set_num_threads(1)
    omnikernel.set_num_threads(1)
    sizes = Sizes(width=256, heads=8, length=128, words=1000, batch=4)
    steps = {
        "operators": torch_step(compiled=True, sizes=sizes),
        "torch": torch_step(compiled=True, sizes=sizes, use=plain_torch()),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(25):
        for name, run in steps.items():
            start = time.process_time()
            run()
            if round_ >= 5:
                times[name].append((time.process_time() - start) * 1e3)
    for name, found in times.items():
        print(f"step, {name:24} median {median(found):8.2f} ms, least {min(found):8.2f} ms")
    print(f"ratio of medians {median(times['operators']) / median(times['torch']):.2f}, ", end="")
    print(f"of the least {min(times['operators']) / min(times['torch']):.2f}")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ("calls", "step"):
        {"calls": calls, "step": step}[wanted]()
