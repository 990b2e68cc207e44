"""Rows of kernels with loaded addresses, of stencils and pairs, and with loops whose length the data decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from kernels import indexing, tiles
from measure import Call
from triton import cdiv, next_power_of_2

from .row import Arrays, Goal, Launch, Row, Wrap, blocks, normal, pick, tensors, torch_function


def embedding(words: int, width: int, count: int) -> Row:
    import torch

    table, index = normal(words, width), np.random.default_rng(1).integers(0, words, count)
    out, theirs = np.empty((count, width), np.float32), np.empty((count, width), np.float32)
    ti, tt, tout = tensors(index, table, theirs)
    return Row(
        f"embedding {count} of {words}x{width}",
        (Launch(indexing.embedding, (index, table, out, width), lambda _: (count,), {"BLOCK": next_power_of_2(width)}),),
        (out,), lambda: (table[index],), 0, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.index_select(tt, 0, ti, out=tout), "NumPy": lambda: np.take(table, index, 0, theirs)},
        bytes=8.0 * out.size, note="torch: index_select(out=)",
    )  # fmt: skip


def segment_sum(rows: int, width: int, segments: int) -> Row:
    values = normal(rows, width)
    starts = np.sort(np.random.default_rng(1).integers(0, rows, segments + 1))
    starts[0], starts[-1] = 0, rows
    out, theirs = np.empty((segments, width), np.float32), np.empty((segments, width), np.float32)
    ids = np.repeat(np.arange(segments), np.diff(starts))
    tids, tvalues, tout = tensors(ids, values, theirs)

    def exact() -> Arrays:
        total = np.zeros((segments, width))
        np.add.at(total, ids, values.astype(np.float64))
        return (total,)

    return Row(
        f"segment sum {rows}x{width} to {segments}",
        (Launch(indexing.segment_sum, (values, starts, out, width), lambda _: (segments,),
                {"BLOCK": next_power_of_2(width)}),),
        (out,), exact, 2e-5, (Goal("torch", 1.0),), peers={"torch": lambda: tout.zero_().index_add_(0, tids, tvalues)},
        flops=1.0 * values.size, bytes=4.0 * (values.size + out.size), note="torch: index_add_",
    )  # fmt: skip


def histogram(n: int) -> Row:
    import torch

    x = np.random.default_rng(0).integers(0, 256, n, dtype=np.int32)
    out = np.zeros(256, np.int32)
    (tx,) = tensors(x)
    launch = Launch(
        indexing.histogram, (x, out, n), lambda c: (cdiv(n, c["BLOCK"]),), {"BLOCK": 1024},
        blocks(1024, 4096, 16384), {"BINS": 256}, lambda: out.fill(0),
    )  # fmt: skip
    return Row(
        f"histogram {n} in 256", (launch,), (out,), lambda: (np.bincount(x, minlength=256),), 0, (Goal("torch", 1.0),),
        peers={"torch": lambda: torch.bincount(tx, minlength=256), "NumPy": lambda: np.bincount(x, minlength=256)},
        flops=1.0 * n, bytes=4.0 * n, note="torch: bincount",
    )  # fmt: skip


def transpose(rows: int, cols: int) -> Row:
    x = normal(rows, cols)
    out, theirs = np.empty((cols, rows), np.float32), np.empty((cols, rows), np.float32)
    tx, tout = tensors(x, theirs)
    configs = tuple({"BR": r, "BC": c} for r, c in ((16, 16), (32, 32), (64, 64), (32, 128)))
    return Row(
        f"transpose {rows}x{cols}",
        (Launch(tiles.transpose, (x, out, rows, cols), lambda c: (cdiv(rows, c["BR"]), cdiv(cols, c["BC"])),
                {"BR": 64, "BC": 64}, configs),),
        (out,), lambda: (x.T,), 0, (Goal("torch", 1.0),), peers={"torch": lambda: tout.copy_(tx.t())}, bytes=8.0 * x.size,
    )  # fmt: skip


def stencil(rows: int, cols: int) -> Row:
    """The border belongs to nobody: its values in the output are left as they are."""
    x = normal(rows, cols)
    out, theirs = np.empty_like(x), np.empty_like(x)

    def average(x: Any, out: Any) -> Any:
        out[1:-1, 1:-1] = (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]) * 0.2
        return out

    def inner(got: Arrays, want: Arrays) -> float:
        return float(np.abs(got[0][1:-1, 1:-1] - want[0]).max())

    def exact() -> Arrays:
        d = x.astype(np.float64)
        return ((d[1:-1, 1:-1] + d[1:-1, :-2] + d[1:-1, 2:] + d[:-2, 1:-1] + d[2:, 1:-1]) * 0.2,)

    configs = tuple({"BR": r, "BC": c} for r, c in ((1, 1024), (4, 256), (16, 64), (16, 256)))
    return Row(
        f"5-point stencil {rows}x{cols}",
        (Launch(tiles.stencil, (x, out, rows, cols), lambda c: (cdiv(rows, c["BR"]), cdiv(cols, c["BC"])),
                {"BR": 16, "BC": 64}, configs),),
        (out,), exact, 2e-6, (Goal("torch.compile", 0.8),), torch_function(average, *tensors(x, theirs)),
        distance=inner, flops=5.0 * x.size, bytes=8.0 * x.size,
    )  # fmt: skip


def n_body(n: int) -> Row:
    import torch

    x, y, z = normal(3, n)
    mass = np.abs(normal(n))
    pull = np.empty((3, n), np.float32)
    outputs = (pull[0], pull[1], pull[2])

    def theirs(x: Any, y: Any, z: Any, mass: Any) -> Any:
        dx, dy, dz = (v[None] - v[:, None] for v in (x, y, z))
        inverse = torch.rsqrt(dx * dx + dy * dy + dz * dz + 1e-2)
        weight = mass[None] * inverse * inverse * inverse
        return (weight * dx).sum(1), (weight * dy).sum(1), (weight * dz).sum(1)

    def exact() -> Arrays:
        d = [v.astype(np.float64)[None] - v.astype(np.float64)[:, None] for v in (x, y, z)]
        weight = mass[None] * (d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + 1e-2) ** -1.5
        return tuple((weight * v).sum(1) for v in d)

    configs = tuple({"BI": i, "BJ": j} for i, j in ((8, 256), (16, 64), (16, 256), (16, 512), (32, 64), (64, 16)))
    return Row(
        f"n-body {n}",
        (Launch(tiles.n_body, (x, y, z, mass, *outputs, n, 1e-2), lambda c: (cdiv(n, c["BI"]),), {"BI": 32, "BJ": 64},
                configs),),
        outputs, exact, 2e-4, (Goal("torch.compile", 0.8),), torch_function(theirs, *tensors(x, y, z, mass)),
        flops=30.0 * n * n, bytes=28.0 * n,
    )  # fmt: skip


def mandelbrot(width: int, height: int, limit: int) -> Row:
    """Points near the border escape a step sooner or later as sums are rounded; one in two hundred may.

    torch.compile gets a few steps at once: for all of them it takes many minutes.
    """
    import torch

    at_once = 5

    out = np.empty((height, width), np.int32)
    dx, dy = 2.5 / (width - 1), 2.4 / (height - 1)
    cr = np.broadcast_to((-2.0 + np.arange(width) * dx).astype(np.float32), out.shape).copy()
    ci = np.broadcast_to((-1.2 + np.arange(height) * dy).astype(np.float32)[:, None], out.shape).copy()

    def piece(zr: Any, zi: Any, inside: Any, steps: Any, cr: Any, ci: Any) -> Any:
        for _ in range(at_once):
            zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
            inside = inside & (zr * zr + zi * zi < 4)
            steps = steps + inside.int()
        return zr, zi, inside, steps

    def theirs(wrap: Wrap) -> Call:
        function, (tr, ti) = wrap(piece), tensors(cr, ci)

        def call() -> Any:
            z, inside, steps = (
                torch.zeros_like(tr),
                torch.ones_like(tr, dtype=torch.bool),
                torch.zeros_like(tr, dtype=torch.int32),
            )
            state = (z, z, inside, steps)
            for _ in range(limit // at_once):
                state = function(*state, tr, ti)
            return state[-1]

        return call

    def exact() -> Arrays:
        c = cr.astype(np.float64) + 1j * ci.astype(np.float64)
        z, steps, inside = np.zeros_like(c), np.zeros(c.shape, np.int32), np.ones(c.shape, bool)
        for _ in range(limit):
            z = np.where(inside, z * z + c, 2)
            inside &= z.real**2 + z.imag**2 < 4
            steps += inside
        return (steps,)

    return Row(
        f"mandelbrot {width}x{height}, {limit} steps",
        (Launch(tiles.mandelbrot, (out, width, height, -2.0, -1.2, dx, dy, limit),
                lambda c: (cdiv(width, c["BLOCK"]), height), {"BLOCK": 128}, blocks(16, 32, 64, 128, 512)),),
        (out,), exact, 0.005, (Goal("torch.compile", 0.8),), theirs,
        distance=lambda got, want: float(np.mean(got[0] != want[0])), flops=10.0 * limit * out.size, bytes=4.0 * out.size,
        note=f"torch.compile: pieces of {at_once} steps, all of them for every point",
    )  # fmt: skip


def makers(scale: str) -> dict[str, Callable[[], Row]]:
    side = pick(scale, 1024, 256, 40)
    return {
        "embedding": partial(
            embedding, pick(scale, 10000, 1000, 50), pick(scale, 256, 256, 20), pick(scale, 8192, 512, 30)
        ),
        "segment_sum": partial(
            segment_sum, pick(scale, 16384, 1024, 60), pick(scale, 128, 128, 20), pick(scale, 1024, 64, 7)
        ),
        "histogram": partial(histogram, pick(scale, 1 << 20, 1 << 16, 3000)),
        "transpose": partial(transpose, pick(scale, 2048, 256, 70), pick(scale, 2048, 256, 50)),
        "mandelbrot": partial(
            mandelbrot, pick(scale, 512, 128, 40), pick(scale, 512, 128, 30), pick(scale, 50, 50, 20)
        ),
        "stencil": partial(stencil, side, side),
        "n_body": partial(n_body, pick(scale, 2048, 256, 50)),
    }
