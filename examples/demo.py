"""The six kernels on NumPy arrays, compiled on this CPU: right, and how fast.  `make demo` runs this.

Every result is compared with NumPy in float64. Times are medians of warm calls. Triton's own interpreter is measured
in a second process, on a smaller input, and scaled by the amount of work: at full size it takes minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import attention
import layer_norm
import matmul
import softmax
import vector_add
from anyarray import max_error

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """One row of the table. `shape` and `small` are sizes; `work` says how the cost grows with them.

    `tolerance` is what float32 allows: more where a result is a sum over thousands of elements.
    """

    name: str
    shape: tuple[int, ...]
    small: tuple[int, ...]
    work: Callable[..., float]
    inputs: Callable[..., Arrays]
    ours: Callable[..., object]
    numpy: Callable[..., object]
    exact: Callable[..., object]
    tolerance: float


def normal(*shapes: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(7)
    return tuple(rng.standard_normal(shape, np.float32) for shape in shapes)


def numpy_softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def numpy_layer_norm(x, w, b):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5)) * w + b


def numpy_layer_norm_backward(x, w, b, dy):
    centred = x - x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
    x_hat, g = centred * rstd, dy * w
    dx = (g - x_hat * (x_hat * g).mean(axis=1, keepdims=True) - g.mean(axis=1, keepdims=True)) * rstd
    return dx, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def numpy_attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def layer_norm_backward(x, w, b, dy):
    _, mean, rstd = layer_norm.layer_norm(x, w, b)
    return layer_norm.layer_norm_backward(dy, x, w, mean, rstd)


def product(a, b):
    # The interpreter cannot tune in reasonable time, so there one size of tile is used.
    return matmul.matmul(a, b, tile=(64, 64, 32) if os.environ.get("TRITON_INTERPRET") else None)


CASES = (
    Case(
        "vector add", (1_000_003,), (65_536,), lambda n: n,
        lambda n: normal((n,), (n,)), vector_add.add, np.add, vector_add.reference, 1e-6,
    ),
    Case(
        "softmax", (4096, 1021), (32, 1021), lambda m, n: m * n,
        lambda m, n: normal((m, n)), softmax.softmax, numpy_softmax, softmax.reference, 1e-6,
    ),
    Case(
        "layer norm", (4096, 1024), (32, 1024), lambda m, n: m * n,
        lambda m, n: normal((m, n), (n,), (n,)), lambda *a: layer_norm.layer_norm(*a)[0], numpy_layer_norm,
        layer_norm.reference, 1e-5,
    ),
    Case(
        "layer norm backward", (4096, 1024), (32, 1024), lambda m, n: m * n,
        lambda m, n: normal((m, n), (n,), (n,), (m, n)), layer_norm_backward, numpy_layer_norm_backward,
        lambda x, w, b, dy: layer_norm.reference_backward(dy, x, w), 3e-4,
    ),
    Case(
        "matmul", (1024, 1024, 1024), (128, 128, 128), lambda m, n, k: m * n * k,
        lambda m, n, k: normal((m, k), (k, n)), product, np.matmul, matmul.reference, 3e-4,
    ),
    Case(
        "causal flash attention", (1, 8, 1024, 64), (1, 1, 128, 64), lambda b, h, s, d: b * h * s * (s + 64) * d,
        lambda *shape: normal(shape, shape, shape), attention.attention, numpy_attention, attention.reference, 1e-5,
    ),
)  # fmt: skip


def seconds(call: Callable[..., object], inputs: Arrays, budget: float = 0.5) -> float:
    """Median seconds of a warm call."""
    call(*inputs)
    times: list[float] = []
    stop = time.perf_counter() + budget
    while len(times) < 3 or (time.perf_counter() < stop and len(times) < 50):
        start = time.perf_counter()
        call(*inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def worst_error(got: object, want: object) -> float:
    if isinstance(got, tuple):
        return max(max_error(g, w) for g, w in zip(got, want, strict=True))
    return max_error(got, want)


def interpret() -> None:
    """In the second process: a line of JSON a case, with the seconds of one call on the small input."""
    for case in CASES:
        inputs = case.inputs(*case.small)
        case.ours(*inputs)  # the first call also loads the interpreter
        start = time.perf_counter()
        case.ours(*inputs)
        print(json.dumps({"name": case.name, "seconds": time.perf_counter() - start}), flush=True)


def interpreter_seconds(announce: Callable[[str], None]) -> dict[str, float]:
    """Seconds that Triton's interpreter would need at full size, by case."""
    env = dict(os.environ, TRITON_INTERPRET="1")
    child = subprocess.Popen([sys.executable, __file__, "--interpret"], stdout=subprocess.PIPE, text=True, env=env)
    found: dict[str, float] = {}
    assert child.stdout is not None
    for line in child.stdout:
        row = json.loads(line)
        case = next(c for c in CASES if c.name == row["name"])
        found[case.name] = row["seconds"] * case.work(*case.shape) / case.work(*case.small)
        announce(case.name)
    if child.wait():
        sys.exit(f"Triton's interpreter failed (exit status {child.returncode}); its message is above")
    return found


def shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape)


def main() -> int:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Table
    except ImportError:
        sys.exit("The demo prints its table with rich: pip install rich, or run `make demo`")
    console = Console()
    columns = (TextColumn("{task.description:44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows: list[tuple[Case, float, float, float]] = []
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=2 * len(CASES))

        def say(text: str) -> None:
            progress.update(task, description=text)
            if not console.is_terminal:
                print(f"{text} ...", flush=True)

        for case in CASES:
            say(f"compiling and running {case.name}")
            inputs = case.inputs(*case.shape)
            error = worst_error(case.ours(*inputs), case.exact(*inputs))
            rows.append((case, error, seconds(case.ours, inputs), seconds(case.numpy, inputs)))
            progress.advance(task)
        say("the same kernels in Triton's interpreter")
        slow = interpreter_seconds(lambda _: progress.advance(task))

    table = Table(title="Stock Triton kernels on NumPy arrays, compiled on this CPU", title_justify="left")
    for header in ("kernel", "shape (float32)"):
        table.add_column(header)
    for header in ("correct: max error", "time", "NumPy", "faster than the interpreter"):
        table.add_column(header, justify="right")
    for case, error, ours, numpy_time in rows:
        right = error <= case.tolerance
        mark = "[green]yes[/]" if right else f"[red]NO, above {case.tolerance:.0e}[/]"
        table.add_row(
            case.name, shape_text(case.shape), f"{mark} {error:.1e}", f"{ours * 1e3:.2f} ms",
            f"{numpy_time * 1e3:.2f} ms", f"{slow[case.name] / ours:,.0f} times",
        )  # fmt: skip
    console.print(table)
    small = ", ".join(f"{case.name} {shape_text(case.small)}" for case in CASES)
    console.print(
        "Error: largest |result - r| / (1 + |r|), r by NumPy in float64. Times: median of warm calls, all threads; "
        f"matmul with the autotuner's choice of tile.\nInterpreter: one warm call on {small}; scaled by the work to the "
        "shape in the table.",
        style="dim",
    )
    return 0 if all(error <= case.tolerance for case, error, *_ in rows) else 1


if __name__ == "__main__":
    if "--interpret" in sys.argv:
        interpret()
    else:
        sys.exit(main())
