"""Matrix products: operands packed as tiles of the accumulator's type, a register-blocked loop over them.

The left operand lies row-major (M, K), the accumulator (M, N), all in the arena. A block of rows by a few vectors of
columns is kept in registers while k runs, so each element of the result is a chain of fused multiply-adds in the order
of k, on every machine the same. The right operand (K, N) lies in panels as wide as a block, since what a block reads
must not fall on the same few sets of the cache, as rows a power of two apart do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.tile import Constant, Op, Value
from ..ir.types import F32, F64, Scalar, Tensor, element_of, shape_of
from ..llvm.emit import I64, LType, LValue
from .ahead import Ahead, fetch
from .bounds import first_off
from .dense import loaded, stored
from .dot_bytes import BytePair, multiply_bytes, pack_bytes, takes
from .evaluate import Buffer, Evaluator
from .function import FunctionLowering, statement
from .panels import Place, following, pack


@dataclass(frozen=True, slots=True)
class Blocking:
    """Rows and lanes of one register block, and steps of k in the loop's body."""

    rows: int
    lanes: int
    vectors: int
    unroll: int

    @property
    def width(self) -> int:
        """Columns of the block."""
        return self.lanes * self.vectors


@dataclass(frozen=True, slots=True)
class Pair:
    """The operands of a product as they are multiplied, and the tiles to fetch meanwhile for the loop's next trip.

    `gap` is the distance of two rows of the left one where that is known at run time only.
    """

    left: Buffer
    right: Buffer
    following: tuple[Ahead, ...] = ()
    gap: LValue | None = None


def blocking(m: int, n: int, k: int, bits: int, vector_bits: int) -> Blocking:
    """The register block of an (m, n, k) product: as many accumulators as hide the latency and fit the registers."""
    lanes = min(n, vector_bits // bits)
    sums, wide = (16, 4) if vector_bits == 512 else (8, 2)
    vectors = max(1, min(wide, n // lanes))
    rows = min(m, sums // vectors)
    return Blocking(rows, lanes, vectors, min(2, k))


def accumulator_type(op: Op) -> Scalar:
    """The type that products are summed in: f32 for everything narrower, else the result's own."""
    element = element_of(op.result.type)
    assert isinstance(element, Scalar)
    return F32 if element.is_float and element != F64 else element


@statement("tt.dot")
def lower_dot(fl: FunctionLowering, op: Op) -> None:
    c_value = op.operands[2]
    assert isinstance(op.result.type, Tensor)
    total = accumulator_type(op)
    narrow = op.result.type.element != total
    pair = pack_bytes(fl, op) if takes(fl, op) else pack_pair(fl, op, total)
    shape = shape_of(op.result.type)
    zero = is_zero(fl, c_value)
    target = fl.in_place.get(op)
    if target is None or narrow:
        memory = stored(fl, op) if zero and not narrow else None
        target = Buffer(memory, shape, total) if memory else fl.buffer(shape, total)
    binding = fl.bindings.get(c_value)
    if not zero and not (isinstance(binding, Buffer) and binding.pointer == target.pointer):
        fl.settle([c_value], shape, keep=False)
        if narrow:
            fl.materialise(c_value, Buffer(target.pointer, shape, element_of(c_value.type), wide=True))
        else:
            fl.materialise(c_value, target)
    if isinstance(pair, BytePair):
        multiply_bytes(fl, pair, target, zero)
    elif len(shape) == 2:
        multiply(fl, pair, target, total, zero, seen(fl, op))
    else:
        multiply_each(fl, pair, target, total, zero)
    if narrow:
        fl.bind(op.result, round_result(fl, op, target))
    else:
        fl.bind(op.result, target)


def seen(fl: FunctionLowering, op: Op) -> tuple[LValue | None, LValue | None]:
    """How many rows and columns of a product are ever stored, as far as masks tell; None for all."""
    wanted = fl.schedule.needed.get(op)
    if wanted is None:
        return None, None
    # Masks that stand after the product are evaluated here, ahead of their place.
    later = {result: inner for inner in wanted.ops for result in inner.results if result not in fl.definitions}
    fl.definitions.update(later)
    ev = Evaluator(fl, flow=True)
    rows, columns = (
        first_off(ev, [mask for mask in wanted.masks if shape_of(mask.type)[1 - dim] == 1], dim, extent)
        for dim, extent in enumerate(shape_of(op.result.type))
    )
    for value in later:
        del fl.definitions[value]
    return rows, columns


def is_zero(fl: FunctionLowering, value: Value) -> bool:
    """A splat of +0, from which the sums may start in registers."""
    op = fl.definitions.get(value)
    while op is not None and op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims"):
        op = fl.definitions.get(op.operands[0])
    if op is None or op.name != "arith.constant" or value in fl.bindings:
        return False
    constant: Constant = op.attributes["value"]
    return constant.is_splat and constant.elements[0] == 0


def panel(fl: FunctionLowering, op: Op, total: Scalar) -> int:
    """How many columns of the right operand stand together, where it is packed; 0 for all."""
    (m, k), n = shape_of(op.operands[0].type)[-2:], shape_of(op.result.type)[-1]
    width = blocking(m, n, k, total.bits, fl.vector_bits).width
    return width if width < n else 0


def pack_pair(fl: FunctionLowering, op: Op, total: Scalar) -> Pair:
    """Both operands of a product in the accumulator's type."""
    left, right = packed(fl, op, 0, total), packed(fl, op, 1, total, panel(fl, op, total))
    ahead = (*filter(None, (left.following, right.following)),)
    return Pair(left.buffer, right.buffer, ahead, left.gap)


@dataclass(frozen=True, slots=True)
class Packed:
    """An operand, what is to be fetched for the next trip of the loop, and the distance of rows that have gaps."""

    buffer: Buffer
    following: Ahead | None = None
    gap: LValue | None = None


def packed(fl: FunctionLowering, op: Op, number: int, total: Scalar, panel: int = 0) -> Packed:
    """An operand in the accumulator's type: row-major, or in panels of columns where it is packed here."""
    value = op.operands[number]
    element = element_of(value.type)
    fl.settle([value], shape_of(value.type), keep=False)
    binding = fl.bindings.get(value)
    if isinstance(binding, Buffer) and (binding.wide or element == total):
        return Packed(binding)
    assert isinstance(value.type, Tensor) and isinstance(element, Scalar)
    found = loaded(fl, value, total, gaps=not number and few_rows(fl, op, total)) if not panel else None
    if found and found.holds is None:
        return Packed(Buffer(found.pointer, value.type.shape, element), following(fl, op, number), found.stride)
    if element != total and not (element.is_float and total == F32):
        value, element = widened(fl, value, element, total), total
    assert isinstance(value.type, Tensor)
    size = value.type.size * total.bytes
    room = Buffer(fl.arena_pointer, value.type.shape, element, element != total, panel)

    def make(pointer: LValue) -> None:
        fl.materialise(value, replace(room, pointer=pointer))

    def pack_it() -> tuple[LValue, Place | None]:
        return pack(fl, op, number, size, make)

    if found and found.holds is not None:
        gaps = [found.stride] if found.stride else []
        dense = [fl.b.integer(I64, value.type.shape[-1])] if gaps else []
        pointer, *gap = fl.b.branch(found.holds, lambda: [found.pointer, *gaps], lambda: [pack_it()[0], *dense])
        return Packed(replace(room, pointer=pointer), following(fl, op, number), *gap)
    pointer, where = pack_it()
    return Packed(replace(room, pointer=pointer), following(fl, op, number, where))


def few_rows(fl: FunctionLowering, op: Op, total: Scalar) -> bool:
    """Whether a block of a product has so few rows that each may be far from the next, and none is kept packed."""
    (m, k), n = shape_of(op.operands[0].type)[-2:], shape_of(op.result.type)[-1]
    wanted = fl.schedule.shared.get((op, 0))
    stays = fl.trips > 1 and wanted is not None and wanted.loop is None
    return not stays and len(shape_of(op.result.type)) == 2 and blocking(m, n, k, total.bits, fl.vector_bits).rows <= 4


def widened(fl: FunctionLowering, value: Value, element: Scalar, total: Scalar) -> Value:
    """An operand converted by a cast op of its own: integers to the accumulator's width."""
    assert isinstance(value.type, Tensor)
    name = (
        "arith.extsi"
        if element.is_integer and element.bits > 1
        else "arith.extui"
        if element.is_integer
        else "arith.extf"
    )
    cast = Op(name, (value,), (Value(f"{value.name}.wide", value.type.with_element(total)),))
    fl.definitions[cast.result] = cast
    return cast.result


def round_result(fl: FunctionLowering, op: Op, sums: Buffer) -> Buffer:
    """The sums rounded once to the result's type."""
    assert isinstance(op.result.type, Tensor)
    wide = Value(f"{op.result.name}.sums", op.result.type.with_element(F32))
    fl.bind(wide, sums)
    cast = Op("arith.truncf", (wide,), (Value(f"{op.result.name}.rounded", op.result.type),), loc=op.loc)
    fl.definitions[cast.result] = cast
    return fl.materialise(cast.result)


def multiply_each(fl: FunctionLowering, pair: Pair, target: Buffer, total: Scalar, zero: bool) -> None:
    """The products of a batch of matrices, which lie one after the other."""
    b = fl.b

    def one(number: LValue, _: list[LValue]) -> list[LValue]:
        def matrix(batch: Buffer) -> Buffer:
            start = b.gep(batch.memory.scalar, batch.pointer, b.mul(number, b.integer(I64, batch.strides[0])))
            return replace(batch, pointer=start, shape=batch.shape[1:])

        multiply(fl, Pair(matrix(pair.left), matrix(pair.right)), matrix(target), total, zero)
        return []

    trips, fl.trips = fl.trips, fl.trips * pair.left.shape[0]
    b.loop(b.integer(I64, 0), b.integer(I64, pair.left.shape[0]), 1, [], one)
    fl.trips = trips


def multiply(
    fl: FunctionLowering,
    pair: Pair,
    target: Buffer,
    total: Scalar,
    zero: bool,
    seen: tuple[LValue | None, LValue | None] = (None, None),
) -> None:
    """target = left @ right (+ target, unless `zero`).

    Only the first rows and columns are made where `seen` says how many matter.
    """
    b, left, right = fl.b, pair.left, pair.right
    (m, k), n = left.shape, right.shape[1]
    scalar = {"f32": "float", "f64": "double"}.get(total.kind, f"i{total.bits}")
    block = blocking(m, n, k, total.bits, fl.vector_bits)
    vector = LType(scalar, block.lanes)
    align = total.bytes
    width, panel = block.width, right.panel or n

    def row(buffer: Buffer, columns: int, i: LValue, j: LValue) -> LValue:
        at = b.add(b.mul(i, b.integer(I64, columns)), j)
        return b.gep(scalar, buffer.pointer, at)

    def shifted(pointer: LValue, elements: int) -> LValue:
        return b.gep(scalar, pointer, b.integer(I64, elements)) if elements else pointer

    def fused(x: LValue, y: LValue, acc: LValue) -> LValue:
        return b.fma(x, y, acc) if total.is_float else b.add(b.mul(x, y), acc)

    def at_block(i: LValue, j: LValue) -> None:
        c = row(target, n, i, j)
        cells = [(r, v) for r in range(block.rows) for v in range(block.vectors)]
        if zero:
            sums = [b.zero(vector) for _ in cells]
        else:
            sums = [b.load(vector, shifted(c, r * n + v * block.lanes), align) for r, v in cells]
        starts = [b.gep(scalar, left.pointer, b.mul(i, pair.gap or b.integer(I64, k)))]
        for _ in range(1, block.rows if pair.gap else 1):
            starts.append(b.gep(scalar, starts[-1], pair.gap or b.integer(I64, k)))
        top = b.gep(scalar, right.pointer, b.mul(j, b.integer(I64, k)) if right.panel else j)
        fetch(b, pair.following, (i, block.rows, m), (j, width, n))

        def steps(kk: LValue, carried: list[LValue]) -> list[LValue]:
            x = [b.gep(scalar, start, kk) for start in (starts if pair.gap else starts[:1])]
            y = b.gep(scalar, top, b.mul(kk, b.integer(I64, panel)))
            for u in range(block.unroll):
                columns = [b.load(vector, shifted(y, u * panel + v * block.lanes), align) for v in range(block.vectors)]
                following = []
                for r in range(block.rows):
                    element = shifted(x[r], u) if pair.gap else shifted(x[0], r * k + u)
                    one = b.splat(b.load(LType(scalar), element, align), block.lanes)
                    following += [fused(one, columns[v], carried[r * block.vectors + v]) for v in range(block.vectors)]
                carried = following
            return carried

        if k == block.unroll:
            sums = steps(b.integer(I64, 0), sums)
        else:
            sums = b.loop(b.integer(I64, 0), b.integer(I64, k), block.unroll, sums, steps)
        for (r, v), value in zip(cells, sums, strict=True):
            b.store(value, shifted(c, r * n + v * block.lanes), align)

    rows, columns = seen[0] or m, seen[1] or n
    b.repeat(columns, width, lambda j: b.repeat(rows, block.rows, lambda i: at_block(i, j)))
    fl.cost += fl.trips * m * n * k / 16 * 0.35
