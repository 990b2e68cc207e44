"""Draws whole kernels as TTIR text, with inputs that have edge values, from a seed.

Only well-defined programs are drawn: accesses in bounds where the mask is on, programs that write places of their own,
integers of NaN bit patterns never observed, loops that end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from program_writer import BITS, DTYPES, FLOATS, FP8, INTEGERS, Shape, Val, Writer, type_text

COMPARE_INT = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
COMPARE_FLOAT = ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"]
INT_OPS = [
    "addi",
    "subi",
    "muli",
    "addi",
    "subi",
    "muli",
    "andi",
    "ori",
    "xori",
    "shli",
    "shrsi",
    "shrui",
    "divsi",
    "remsi",
    "divui",
    "remui",
    "maxsi",
    "minsi",
    "maxui",
    "minui",
    "floordivsi",
    "ceildivsi",
    "ceildivui",
]
BOOL_OPS = ["andi", "ori", "xori", "addi", "muli"]
FLOAT_OPS = ["addf", "addf", "subf", "mulf", "mulf", "divf", "maxnumf", "minnumf", "maximumf", "minimumf"]
MAX_TILE = 1024


@dataclass(frozen=True)
class Part:
    """An argument that is a part of the array of an earlier one."""

    of: int
    offset: int
    count: int


@dataclass
class Program:
    """A kernel, its arguments and its grid. Arguments are arrays or parts of them (passed by address) and scalars."""

    seed: int
    text: str
    arguments: list[Any]
    grid: tuple[int, int, int]

    def copy_arguments(self) -> list[Any]:
        """Arrays of their own, with the same overlaps."""
        made: list[Any] = []
        for value in self.arguments:
            if isinstance(value, Part):
                made.append(made[value.of][value.offset : value.offset + value.count])
            else:
                made.append(value.copy() if isinstance(value, np.ndarray) else value)
        return made


def edge_values(kind: str) -> Any:
    dtype = DTYPES[kind]
    if kind in INTEGERS:
        info = np.iinfo(dtype)
        return np.array([0, 1, -1, 2, 3, -7, info.min, info.max, info.min + 1], dtype)
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    tiny = info.smallest_subnormal
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        np.inf,
        -np.inf,
        np.nan,
        info.max,
        -info.max,
        tiny,
        -tiny,
        info.smallest_normal,
    ]
    with np.errstate(all="ignore"):
        return np.array([np.float64(v) for v in values]).astype(dtype)


def draw_array(rng: np.random.Generator, kind: str, count: int) -> Any:
    """Tame values, or a mixture of tame values, edge values and random bits."""
    dtype = DTYPES[kind]
    if kind in INTEGERS:
        tame = rng.integers(-9, 100, count).astype(dtype)
        bits = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, dtype, endpoint=True)
    else:
        tame = (rng.normal(size=count) * 4).astype(np.float32).astype(dtype)
        with np.errstate(all="ignore"):
            wild = rng.normal(size=count) * 2.0 ** rng.uniform(-30, 30, count)
            bits = wild.astype(np.float32).astype(dtype)
    if rng.random() < 0.5:
        return tame
    pick = rng.random(count)
    edges = rng.choice(edge_values(kind), count)
    return np.where(pick < 0.5, tame, np.where(pick < 0.75, edges, bits)).astype(dtype)


@dataclass
class Drawer:
    """Draws one kernel. `pool` holds the values in scope; regions restore it when they end."""

    rng: np.random.Generator
    w: Writer = field(default_factory=Writer)
    pool: list[Val] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    parameters: list[Val] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    programs: int = 1
    overlap: bool = False  # arguments may share memory
    pid: Val | None = None
    budget: int = 0

    # --- choices -----------------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choice(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self) -> Shape:
        rank = self.choice([1, 1, 1, 1, 1, 2, 2, 2, 2, 3])
        while True:
            shape = tuple(1 << self.number(0, 9 - 2 * rank + rank // 2) for _ in range(rank))
            if int(np.prod(shape)) <= MAX_TILE:
                return shape

    def kind(self) -> str:
        return self.choice((*INTEGERS, *FLOATS, "f32", "f32", "i32", "f16", "bf16"))

    def literal(self, kind: str) -> float:
        if kind == "i1":
            return self.number(0, 1)
        if kind in INTEGERS:
            return (
                int(self.choice(edge_values(kind))) if self.chance(0.3) else self.number(-5, 40 if kind != "i8" else 30)
            )
        return (
            float(self.choice(edge_values(kind))) if self.chance(0.2) else self.choice([0.5, 1.0, -1.5, 3.0, 0.1, 1e-3])
        )

    # --- parameters and memory ---------------------------------------------------------------------------------------

    def parameter(self, kind: str, value: Any) -> Val:
        made = Val(f"%arg{len(self.parameters)}", kind)
        self.parameters.append(made)
        self.arguments.append(value)
        return made

    def array(self, kind: str, count: int) -> Val:
        """A pointer to an array of at least `count` elements: a new one, one in use, or a part of one in use."""
        fitting = [
            (at, p)
            for at, (p, a) in enumerate(zip(self.parameters, self.arguments, strict=True))
            if p.kind == f"*{kind}" and isinstance(a, np.ndarray) and len(a) >= count
        ]
        if fitting and self.chance(0.15):
            return self.choice(fitting)[1]
        if fitting and self.overlap and self.chance(0.4):
            at, _ = self.choice(fitting)
            slack = len(self.arguments[at]) - count
            return self.parameter(f"*{kind}", Part(at, min(slack, self.number(0, 9)), count))
        return self.parameter(f"*{kind}", draw_array(self.rng, kind, count))

    def index(self, shape: Shape) -> tuple[Val, int]:
        """A tile of distinct offsets with random strides, possibly of a permuted order, and their upper bound."""
        axes = list(range(len(shape)))
        order = [axes[i] for i in self.rng.permutation(len(axes))] if self.chance(0.3) else axes[::-1]
        stride, strides = 1 if self.chance(0.85) else self.number(2, 3), [0] * len(shape)
        for axis in order:
            strides[axis] = stride
            stride = stride * shape[axis] + (self.number(0, 5) if self.chance(0.3) else 0)
        total: Val | None = None
        for axis in axes:
            part = self.w.make_range(shape[axis])
            for other in axes:
                if other != axis:
                    part = self.w.expand(part, other)
            if strides[axis] != 1:
                part = self.w.binary("arith.muli", part, self.w.constant(strides[axis], "i32", part.shape))
            part = self.w.broadcast(part, shape)
            total = part if total is None else self.w.binary("arith.addi", total, part)
        assert total is not None
        bound = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
        return total, bound

    def program_base(self, span: int) -> Val:
        assert self.pid is not None
        return self.w.binary("arith.muli", self.pid, self.w.constant(span, "i32"))

    def tile_pointers(self, base: Val, offsets: Val, start: Val | None) -> Val:
        """base + start + offsets, in one of the ways that front ends write it."""
        shape = offsets.shape
        if start is not None and self.chance(0.5):
            base = self.w.addptr(base, start)
            start = None
        if start is not None:
            offsets = self.w.binary("arith.addi", offsets, self.w.splat(start, shape))
        if self.chance(0.15):
            offsets = self.w.cast("arith.extsi", offsets, "i64")
        return self.w.addptr(self.w.splat(base, shape), offsets)

    def tail_mask(self, offsets: Val, bound: int) -> tuple[Val | None, int]:
        """A mask `offset < n`, with n a parameter, and the number of elements that the lanes of it reach."""
        if self.chance(0.5):
            return None, bound
        limit = self.number(0, bound) if self.chance(0.8) else bound
        scalar = self.parameter("i32", limit) if self.chance(0.7) else self.w.constant(limit, "i32")
        return self.w.binary("arith.cmpi", offsets, self.w.splat(scalar, offsets.shape), "slt", "i1"), limit

    def combined_mask(self, mask: Val | None, shape: Shape) -> Val | None:
        """The mask, sometimes with any other i1 tile."""
        if not self.chance(0.3):
            return mask
        extra = self.coerce(self.any_value(), "i1", shape)
        return extra if mask is None else self.w.binary("arith.andi", mask, extra)

    def load_tile(self, kind: str | None = None, shape: Shape | None = None) -> Val:
        kind = kind or (self.choice(FP8) if self.chance(0.04) else self.kind())
        shape = shape or self.shape()
        offsets, bound = self.index(shape)
        mask, reach = self.tail_mask(offsets, bound)
        own = self.chance(0.6)  # a part of the array for each program, else one part for all
        span = bound + self.number(0, 3)
        size = max(1, span * (self.programs - 1) + reach if own else reach)
        base = self.array(kind, size)
        pointers = self.tile_pointers(base, offsets, self.program_base(span) if own else None)
        mask = self.combined_mask(mask, shape)
        other = (
            self.w.constant(self.literal(kind), kind, shape)
            if mask is not None and kind not in FP8 and self.chance(0.6)
            else None
        )
        if mask is not None and other is None and kind in FLOATS and self.chance(0.3):
            other = self.coerce(self.any_value(), kind, shape)
        return self.w.load(pointers, mask, other)

    def gather_tile(self) -> Val:
        """A load through computed indices, wrapped into the array."""
        kind, size = self.kind(), 1 << self.number(0, 7)
        base = self.array(kind, size)
        shape = self.shape()
        at = self.coerce(self.any_value(), "i32", shape)
        at = self.w.binary("arith.andi", at, self.w.constant(size - 1, "i32", shape))
        return self.w.load(self.w.addptr(self.w.splat(base, shape), at), self.combined_mask(None, shape))

    def store_tile(self, value: Val) -> None:
        """Store to an array of its own, sometimes over what was there, sometimes read back in reverse and stored again."""
        if value.kind == "i1":
            value = self.w.cast("arith.extui", value, "i8")
        if not value.shape:
            base = self.array(value.kind, self.programs)
            assert self.pid is not None
            self.w.store(self.w.addptr(base, self.pid), value)
            return
        offsets, bound = self.index(value.shape)
        mask, reach = self.tail_mask(offsets, bound)
        size = max(1, bound * (self.programs - 1) + reach)
        base = self.array(value.kind, size)
        start = self.program_base(bound)
        pointers = self.tile_pointers(base, offsets, start)
        if value.kind in FLOATS and self.chance(0.2):  # in place
            old = self.w.load(pointers, mask)
            value = self.w.binary("arith.addf", old, value)
        mask = self.combined_mask(mask, value.shape)
        self.w.store(pointers, value, mask)
        if self.chance(0.2) and reach == bound and len(value.shape) == 1:
            self.read_back(base, offsets, bound, start, value.kind)

    def read_back(self, base: Val, offsets: Val, bound: int, start: Val, kind: str) -> None:
        """Load what was stored, in reverse, and store it elsewhere: effects keep their order."""
        reverse = self.w.binary("arith.subi", self.w.constant(bound - 1, "i32", offsets.shape), offsets)
        again = self.w.load(self.tile_pointers(base, reverse, start))
        target = self.array(kind, bound * self.programs)
        self.w.store(self.tile_pointers(target, offsets, start), again)

    # --- values ------------------------------------------------------------------------------------------------------

    def any_value(self, kinds: Sequence[str] | None = None) -> Val:
        """A value in scope, recent ones more often; a literal where none fits."""
        fitting = [v for v in self.pool if kinds is None or v.kind in kinds]
        if not fitting:
            kind = self.choice(kinds) if kinds else self.kind()
            return self.w.constant(self.literal(kind), kind, () if self.chance(0.3) else self.shape())
        if self.chance(0.5):
            fitting = fitting[-3:]
        return self.choice(fitting)

    def coerce(self, value: Val, kind: str, shape: Shape | None = None) -> Val:
        """The value as another kind and shape."""
        if shape is not None and value.shape != shape:
            value = self.fit(value, shape)
        return self.convert(value, kind)

    def fit(self, value: Val, shape: Shape) -> Val:
        """By splat, broadcast, reshape, or a reduction to a scalar."""
        if not value.shape:
            return self.w.splat(value, shape)
        if len(value.shape) == len(shape) and all(a in (1, b) for a, b in zip(value.shape, shape, strict=True)):
            return self.w.broadcast(value, shape)
        if len(shape) == 2 and len(value.shape) == 1 and value.shape[0] in shape:
            axis = 1 - shape.index(value.shape[0])
            return self.w.broadcast(self.w.expand(value, axis), shape)
        if np.prod(value.shape) == np.prod(shape) and shape:
            return self.w.reshaped("tt.reshape", value, shape)
        while value.shape:
            value = self.reduce(value)
        return self.w.splat(value, shape)

    def convert(self, value: Val, kind: str) -> Val:
        """By the cast that a front end would use."""
        source = value.kind
        if source == kind:
            return value
        if source in FP8 or kind in FP8:
            return self.convert_fp8(value, kind)
        if kind == "i1":
            zero = self.w.constant(0, source, value.shape)
            integer = source in INTEGERS
            return self.w.binary(
                "arith.cmpi" if integer else "arith.cmpf", value, zero, "ne" if integer else "une", "i1"
            )
        if source in FLOATS and kind in FLOATS:
            if BITS[source] == BITS[kind]:
                return self.w.cast("arith.truncf", self.w.cast("arith.extf", value, "f32"), kind)
            return self.w.cast("arith.extf" if BITS[source] < BITS[kind] else "arith.truncf", value, kind)
        if source in FLOATS:
            return self.w.cast(self.choice(["arith.fptosi", "arith.fptosi", "arith.fptoui"]), value, kind)
        if kind in FLOATS:
            return self.w.cast("arith.uitofp" if source == "i1" or self.chance(0.3) else "arith.sitofp", value, kind)
        if BITS[source] > BITS[kind]:
            return self.w.cast("arith.trunci", value, kind)
        return self.w.cast("arith.extui" if source == "i1" or self.chance(0.3) else "arith.extsi", value, kind)

    def convert_fp8(self, value: Val, kind: str) -> Val:
        if value.kind in FP8:
            wide = self.w.op(
                "f32", value.shape, f"tt.fp_to_fp {value.name} : {value.type} -> {type_text('f32', value.shape)}"
            )
            return self.convert(wide, kind)
        if value.kind not in ("f16", "bf16", "f32"):
            value = self.convert(value, "f32")
        text = f"tt.fp_to_fp {value.name}, rounding = rtne : {value.type} -> {type_text(kind, value.shape)}"
        return self.w.op(kind, value.shape, text)

    def combine_body(self, kind: str) -> str:
        """The op of a combine region; `scaled` is a * 0.5 - b."""
        if kind == "i1":
            return self.choice(["andi", "ori", "xori"])
        if kind in INTEGERS:
            return self.choice(["addi", "muli", "xori", "maxsi", "minui", "andi"])
        return self.choice(["addf", "addf", "maxnumf", "minnumf", "maximumf", "mulf", "scaled"])

    def combine_region(self, kind: str, name: str) -> None:
        """The block of a combine region of one operand, for tt.reduce or tt.scan."""
        body = self.combine_body(kind)
        old, new = Val(self.w.name(), kind), Val(self.w.name(), kind)
        self.w.line(f"^bb0({old.name}: {kind}, {new.name}: {kind}):")
        with self.w.inside():
            if body == "scaled":
                old = self.w.binary("arith.mulf", old, self.w.constant(0.5, kind))
                body = "subf"
            result = self.w.binary(f"arith.{body}", old, new)
            self.w.line(f"{name}.return {result.name} : {kind}")

    def reduce(self, value: Val, axis: int | None = None) -> Val:
        axis = self.number(0, len(value.shape) - 1) if axis is None else axis
        if value.kind in FP8:
            value = self.convert(value, "f32")
        rest = value.shape[:axis] + value.shape[axis + 1 :]
        made = Val(self.w.name(), value.kind, rest)
        self.w.line(f'{made.name} = "tt.reduce"({value.name}) <{{axis = {axis} : i32}}> ({{')
        self.combine_region(value.kind, "tt.reduce")
        self.w.line(f"}}) : ({value.type}) -> {made.type}")
        return made
