"""A row of the benchmark: launches, what they must give, and everything else that does the same work.

Ours is called on NumPy arrays; torch on tensors that share their memory or hold the same values. Where a peer can write
to memory that is there, it does, so that nobody pays for fresh pages. A row is timed with the block sizes that a GPU user
writes and with those that `triton.autotune` chooses on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton
from measure import Call

Constants = Mapping[str, int]
Arrays = tuple[np.ndarray, ...]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

SCALES = ("full", "quick", "tiny")


def pick(scale: str, full: int, quick: int, tiny: int) -> int:
    """The size for a scale: full for figures, quick to see that it runs, tiny for tests."""
    return {"full": full, "quick": quick, "tiny": tiny}[scale]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


def tensor(array: np.ndarray) -> Any:
    """A torch tensor on the memory of the array; bf16 too."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def tensors(*arrays: np.ndarray) -> tuple[Any, ...]:
    return tuple(tensor(a) for a in arrays)


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `typical` holds the constants that a GPU user writes, `configs` what the autotuner may choose.

    `before` runs ahead of each launch and is part of the work (zeroing what is added to). `restore` names arguments that
    the kernel changes in place, which the autotuner puts back after each try.
    """

    kernel: Any
    arguments: tuple[Any, ...]
    grid: Callable[[Constants], tuple[int, ...]]
    typical: Constants
    configs: tuple[Constants, ...] = ()
    fixed: Constants = field(default_factory=dict)
    before: Call | None = None
    restore: tuple[str, ...] = ()

    def bind(self, constants: Constants, times: int = 1) -> Call:
        """The launch with these constants; it returns the compiled kernel.

        With `times` one launch does all of its work so often, one pass after the other, by the last axis of the grid, which
        the kernel must not ask for.
        """
        given = {**self.fixed, **constants}
        grid = self.grid(given)
        if times != 1:
            grid = (*grid, *(1,) * (2 - len(grid)), times)
        launcher, arguments, before = self.kernel[grid], self.arguments, self.before
        if before is None:
            return lambda: launcher(*arguments, **given)

        def call() -> object:
            before()
            return launcher(*arguments, **given)

        return call

    def tune(self) -> Constants:
        """The constants that `triton.autotune` chooses here."""
        tuner = triton.autotune(
            [triton.Config(dict(c)) for c in self.configs], key=[], restore_value=list(self.restore)
        )(self.kernel)
        if self.before is not None:
            self.before()
        tuner[self.grid](*self.arguments, **self.fixed)
        return dict(tuner.best_config.kwargs)


@dataclass(frozen=True)
class Goal:
    """Ours may take this share of the time of that contender, on one thread."""

    peer: str
    limit: float


def worst(got: Arrays, want: Arrays) -> float:
    """The largest |got - want| / (1 + |want|) over all outputs; NaN and inf count as wrong."""
    errors = [0.0]
    for g, w in zip(got, want, strict=True):
        w64 = np.asarray(w, np.float64)
        if g.shape != w64.shape:
            raise ValueError(f"an output has shape {g.shape}, expected {w64.shape}")
        error = np.abs(np.asarray(g).astype(np.float64) - w64) / (1 + np.abs(w64))
        errors.append(float(np.max(error, initial=0.0)) if np.isfinite(error).all() else float("inf"))
    return max(errors)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    `exact` gives what `outputs` must hold, by NumPy in float64; `distance` of the two may be `tolerance`. `reset` puts
    back inputs that the kernels change. `torch` makes torch's own call, from a function that wraps what torch.compile is
    to compile; `peers` are calls of others, or of torch in a way that it does not compile. `flops` and `bytes` are those
    of one call at its best: every input read once, every output written once; an exp, erf or division counts as ten.
    """

    name: str
    launches: tuple[Launch, ...]
    outputs: Arrays
    exact: Callable[[], Arrays]
    tolerance: float
    goals: tuple[Goal, ...] = ()
    torch: Callable[[Wrap], Call] | None = None
    peers: Mapping[str, Call] = field(default_factory=dict)
    distance: Callable[[Arrays, Arrays], float] = worst
    reset: Call = lambda: None
    flops: float = 0.0
    bytes: float = 0.0
    interpreted: str = ""
    work: float = 1.0
    note: str = ""
    no_eager: bool = False  # torch without compilation is too slow to wait for, or not of interest

    @property
    def bound(self) -> str:
        """What a CPU waits for at this ratio of arithmetic and traffic."""
        return "arithmetic" if self.flops > 6 * self.bytes else "memory"

    def call(self, chosen: Mapping[int, Constants] | None = None, times: int = 1) -> Call:
        """All launches in turn, typical constants except where others are chosen; returns the compiled kernels."""
        chosen = chosen or {}
        calls = [launch.bind(chosen.get(i, launch.typical), times) for i, launch in enumerate(self.launches)]
        if len(calls) == 1:
            return calls[0]
        return lambda: tuple(call() for call in calls)

    def tune(self) -> dict[int, Constants]:
        """The autotuner's choice for every launch that has one."""
        return {i: launch.tune() for i, launch in enumerate(self.launches) if launch.configs}

    def error(self, call: Call, want: Arrays) -> float:
        """How far the outputs are from what is wanted, after one call on fresh inputs."""
        self.reset()
        for output in self.outputs:
            if not any(output is a for launch in self.launches for a in launch.arguments if launch.restore):
                output.fill(77)  # not the right result from an earlier call
        call()
        return self.distance(self.outputs, want)


def words(chosen: Mapping[int, Constants]) -> str:
    """The chosen constants, in short."""
    return "; ".join(", ".join(f"{k}={v}" for k, v in constants.items()) for constants in chosen.values())


def torch_function(function: Callable[..., Any], *arguments: Any) -> Callable[[Wrap], Call]:
    """For `Row.torch`: a call of one function, compiled or not."""

    def make(wrap: Wrap) -> Call:
        wrapped = wrap(function)
        return lambda: wrapped(*arguments)

    return make


def blocks(*sizes: int, name: str = "BLOCK") -> tuple[Constants, ...]:
    return tuple({name: size} for size in sizes)
