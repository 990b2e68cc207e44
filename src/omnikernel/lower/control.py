"""Control flow: loops with carried scalars and tiles, branches, calls, and functions of several blocks.

A carried scalar is a phi. A carried tile has one buffer: what a loop yields is computed into it at the end of each trip,
after everything that still reads its old value.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.tile import Op, Region, Successor, Value, walk
from ..ir.types import Tensor
from ..llvm.emit import LValue, Section
from .evaluate import Buffer
from .function import BlockContext, Frame, FunctionLowering, Jump, Trip, statement
from .lanes import Lanes, register_type


def _scalars(values: Sequence[Value]) -> list[int]:
    return [i for i, v in enumerate(values) if not isinstance(v.type, Tensor)]


def _tiles(values: Sequence[Value]) -> list[int]:
    return [i for i, v in enumerate(values) if isinstance(v.type, Tensor)]


def carried_buffer(fl: FunctionLowering, like: Value, source: Value) -> Buffer:
    """A buffer of its own for a carried tile, holding its initial value."""
    assert isinstance(like.type, Tensor)
    buffer = fl.buffer(like.type.shape, like.type.element)
    fl.materialise(source, buffer)
    return buffer


def copy(fl: FunctionLowering, source: Value, buffer: Buffer) -> None:
    """Compute a tile into a buffer that holds something else until then."""
    fl.materialise(source, buffer)


def assign(fl: FunctionLowering, targets: Sequence[tuple[Buffer, Value]], holders: Sequence[Value]) -> None:
    """Give every buffer its next value at once.

    Args:
        targets: buffers and the tiles to compute into them.
        holders: for each target the block argument whose tile the buffer holds now, which the others may read.
    """
    work = []
    for (buffer, value), holder in zip(targets, holders, strict=True):
        binding = fl.bindings.get(value)
        if isinstance(binding, Buffer) and binding.pointer == buffer.pointer:
            continue
        work.append((buffer, value, holder))
    late: list[tuple[Buffer, Buffer, Value]] = []
    early: list[tuple[Buffer, Value]] = []
    for buffer, value, holder in work:
        foreign = any(other is not holder and fl._reach(other, [value]) is not None for _, _, other in work)
        moved = fl._reach(holder, [value]) is False
        if foreign or moved:
            assert isinstance(value.type, Tensor)
            spare = fl.buffer(value.type.shape, value.type.element)
            fl.materialise(value, spare)
            late.append((buffer, spare, value))
        else:
            early.append((buffer, value))
    for buffer, value in early:
        copy(fl, value, buffer)
    for buffer, spare, value in late:
        fl.bind(value, spare)
        copy(fl, value, buffer)


@statement("scf.for")
def lower_for(fl: FunctionLowering, op: Op) -> None:
    """Counts in 64 bits, so that an index near its type's limit does not wrap."""
    b = fl.b
    body = op.regions[0].block
    inits = op.operands[3:]
    args = body.args[1:]
    unsigned = bool(op.attributes.get("unsigned"))
    low, high, step = (b.integer_cast(fl.raw(v), "i64", signed=not unsigned) for v in op.operands[:3])
    fl.settle([inits[i] for i in _tiles(inits)], (), keep=False)
    buffers = {i: carried_buffer(fl, args[i], inits[i]) for i in _tiles(args)}
    for i, buffer in buffers.items():
        fl.bind(args[i], buffer)
    scalars = _scalars(args)
    kind = register_type(body.args[0].type)  # type: ignore[arg-type]
    _find_in_place(fl, op, buffers)
    trips = fl.trips
    fl.trips *= 8

    def trip(index: LValue, carried: list[LValue]) -> Sequence[LValue]:
        fl.trip = Trip(index, high, step)
        fl.bind(body.args[0], Lanes(body.args[0].type, b.integer_cast(index, kind.scalar)))  # type: ignore[arg-type]
        for i, value in zip(scalars, carried, strict=True):
            fl.bind(args[i], Lanes(args[i].type, value))  # type: ignore[arg-type]
        with fl.scope():
            end = fl.body(op.regions[0])
            fl.settle([end.operands[i] for i in _tiles(args)], (), keep=False)
            following = [fl.raw(end.operands[i]) for i in scalars]
            assign(fl, [(buffers[i], end.operands[i]) for i in buffers], [args[i] for i in buffers])
        return following

    if fl.schedule.shared:
        fl.preheaders[op] = b.section()
    around = fl.trip
    after = b.loop(low, high, step, [fl.raw(inits[i]) for i in scalars], trip, unsigned=unsigned)
    fl.trips, fl.trip = trips, around
    for i, value in zip(scalars, after, strict=True):
        fl.bind(op.results[i], Lanes(op.results[i].type, value))  # type: ignore[arg-type]
    for i, buffer in buffers.items():
        fl.bind(op.results[i], buffer)


def _find_in_place(fl: FunctionLowering, op: Op, buffers: dict[int, Buffer]) -> None:
    """Find dots that may add to the buffer that a loop carries instead of to a copy of it.

    The carried tile must have no other reader: it is gone once the dot has begun.
    """
    body = op.regions[0].block
    uses: dict[Value, set[Op]] = {}
    for inner in walk(op.regions[0]):
        for value in inner.operands:
            uses.setdefault(value, set()).add(inner)
    for i, buffer in buffers.items():
        arg, result = body.args[1 + i], body.terminator.operands[i]
        makers = [inner for inner in body.ops if inner.name == "tt.dot" and result in inner.results]
        if not makers or uses.get(result, set()) != {body.terminator}:
            continue
        (dot,) = makers
        sinks = _final_readers(fl, arg, uses)
        if sinks == {dot} and not {arg, dot.operands[2]} & set(dot.operands[:2]):
            fl.in_place[dot] = buffer


def _final_readers(fl: FunctionLowering, value: Value, uses: dict[Value, set[Op]]) -> set[Op]:
    """The sinks of a carried tile; elementwise ops between are followed, shape ops count as readers."""
    from ..ir.ops import SCHEMA
    from ..passes.schedule import is_lazy

    found: set[Op] = set()
    seen: set[Op] = set()
    stack = list(uses.get(value, set()))
    while stack:
        user = stack.pop()
        if user in seen:
            continue
        seen.add(user)
        if is_lazy(user) and SCHEMA[user.name].kind == "elementwise":
            for result in user.results:
                if result in fl.schedule.keep:
                    found.add(user)
                stack.extend(uses.get(result, set()))
        else:
            found.add(user)
    return found


@statement("scf.while")
def lower_while(fl: FunctionLowering, op: Op) -> None:
    """Region 0 decides and passes values on to region 1 (or out); region 1 yields the next trip's values."""
    b = fl.b
    before, after = op.regions[0].block, op.regions[1].block
    fl.settle([v for v in op.operands if isinstance(v.type, Tensor)], (), keep=False)
    coming = {i: carried_buffer(fl, before.args[i], op.operands[i]) for i in _tiles(before.args)}
    going = {i: fl.buffer(v.type.shape, v.type.element) for i, v in enumerate(after.args) if isinstance(v.type, Tensor)}
    for i, buffer in coming.items():
        fl.bind(before.args[i], buffer)
    scalars = _scalars(before.args)
    inits = [fl.raw(op.operands[i]) for i in scalars]  # before the loop's first block: a raw form may be made here
    head, work, done = b.fresh("while"), b.fresh("do"), b.fresh("end")
    start = b.block
    b.jump(head)
    b.label(head)
    phis = [b.named(f"%{b.fresh('w')}", register_type(before.args[i].type)) for i in scalars]  # type: ignore[arg-type]
    places = [b.reserve() for _ in phis]
    for i, phi in zip(scalars, phis, strict=True):
        fl.bind(before.args[i], Lanes(before.args[i].type, phi))  # type: ignore[arg-type]
    trips = fl.trips
    fl.trips *= 8
    with fl.scope():
        end = fl.body(op.regions[0])
        passed = end.operands[1:]
        fl.settle([v for v in passed if isinstance(v.type, Tensor)], (), keep=False)
        for i, buffer in going.items():
            fl.materialise(passed[i], buffer)
        outgoing = {i: fl.raw(passed[i]) for i in _scalars(passed)}
        b.jump_if(fl.raw(end.operands[0]), work, done)
    b.label(work)
    for i, value in outgoing.items():
        fl.bind(after.args[i], Lanes(after.args[i].type, value))  # type: ignore[arg-type]
    for i, buffer in going.items():
        fl.bind(after.args[i], buffer)
    with fl.scope():
        end = fl.body(op.regions[1])
        fl.settle([end.operands[i] for i in coming], (), keep=False)
        following = [fl.raw(end.operands[i]) for i in scalars]
        assign(fl, [(coming[i], end.operands[i]) for i in coming], [before.args[i] for i in coming])
    latch = b.block
    b.jump(head)
    for place, phi, first, last in zip(places, phis, inits, following, strict=True):
        b.fill(place, f"{phi.text} = phi {phi.type} [ {first.text}, %{start} ], [ {last.text}, %{latch} ]")
    b.label(done)
    fl.trips = trips
    for i, value in outgoing.items():
        fl.bind(op.results[i], Lanes(op.results[i].type, value))  # type: ignore[arg-type]
    for i, buffer in going.items():
        fl.bind(op.results[i], buffer)


@statement("scf.if")
def lower_if(fl: FunctionLowering, op: Op) -> None:
    """Scalars merge in phis, tiles in a buffer that either branch fills."""
    b = fl.b
    buffers = {
        i: fl.buffer(v.type.shape, v.type.element) for i, v in enumerate(op.results) if isinstance(v.type, Tensor)
    }
    scalars = _scalars(op.results)
    _compute_pending(fl)

    def run(region: Region) -> Sequence[LValue]:
        if not region.blocks:
            return []
        with fl.scope():
            end = fl.body(region)
            fl.settle([end.operands[i] for i in buffers], (), keep=False)
            for i, buffer in buffers.items():
                fl.materialise(end.operands[i], buffer)
            return [fl.raw(end.operands[i]) for i in scalars]

    has_else = len(op.regions) > 1 and bool(op.regions[1].blocks)
    merged = b.branch(
        fl.raw(op.operands[0]), lambda: run(op.regions[0]), (lambda: run(op.regions[1])) if has_else else None
    )
    for i, value in zip(scalars, merged, strict=True):
        fl.bind(op.results[i], Lanes(op.results[i].type, value))  # type: ignore[arg-type]
    for i, buffer in buffers.items():
        fl.bind(op.results[i], buffer)


def _compute_pending(fl: FunctionLowering) -> None:
    """Tiles that wait for their first use are computed before a branch, since either side may be that use."""
    for value in list(fl.pending):
        if value in fl.pending and value not in fl.bindings:
            fl.pending.remove(value)
            fl.bind(value, fl.materialise(value))


# --- functions -------------------------------------------------------------------------------------------------------------------


def lower_blocks(fl: FunctionLowering, region: Region, prefix: str) -> None:
    """Lower the blocks of a function body. The first one continues the current block; each ends in a jump or return.

    Blocks come in the order of the text, in which a definition precedes what it dominates.
    """
    b = fl.b
    labels = {block.label: f"{prefix}.{i}" for i, block in enumerate(region.blocks)}
    buffers = {
        block.label: {
            i: fl.buffer(v.type.shape, v.type.element) for i, v in enumerate(block.args) if isinstance(v.type, Tensor)
        }
        for block in region.blocks[1:]
    }
    context = BlockContext(region, labels, {label: [] for label in labels}, buffers)
    fl.blocks.append(context)
    phis: dict[str, list[tuple[int, Section, LValue]]] = {}
    for i, block in enumerate(region.blocks):
        if i:
            b.label(labels[block.label])
            phis[block.label] = []
            for at, arg in enumerate(block.args):
                if at in buffers[block.label]:
                    fl.bind(arg, buffers[block.label][at])
                else:
                    phi = b.named(f"%{b.fresh('p')}", register_type(arg.type))  # type: ignore[arg-type]
                    phis[block.label].append((at, b.reserve(), phi))
                    fl.bind(arg, Lanes(arg.type, phi))  # type: ignore[arg-type]
        fl.ops(block)
    fl.blocks.pop()
    for label, waiting in phis.items():
        for at, place, phi in waiting:
            incoming = ", ".join(f"[ {jump.scalars[at].text}, %{jump.origin} ]" for jump in context.entries[label])
            b.fill(place, f"{phi.text} = phi {phi.type} {incoming}")


def _enter(fl: FunctionLowering, successor: Successor) -> None:
    """Hand the operands of a jump to its target, and jump."""
    context = fl.blocks[-1]
    (target,) = [block for block in context.region.blocks if block.label == successor.label]
    operands = successor.operands
    fl.settle([v for v in operands if isinstance(v.type, Tensor)], (), keep=False)
    scalars = {i: fl.raw(operands[i]) for i in _scalars(operands)}
    tiles = context.buffers.get(successor.label, {})
    assign(fl, [(tiles[i], operands[i]) for i in tiles], [target.args[i] for i in tiles])
    context.entries[successor.label].append(Jump(scalars, fl.b.block))
    fl.b.jump(context.labels[successor.label])


@statement("cf.br")
def lower_br(fl: FunctionLowering, op: Op) -> None:
    _compute_pending(fl)
    _enter(fl, op.successors[0])


@statement("cf.cond_br")
def lower_cond_br(fl: FunctionLowering, op: Op) -> None:
    b = fl.b
    _compute_pending(fl)
    sides = [b.fresh("side") for _ in op.successors]
    b.jump_if(fl.raw(op.operands[0]), *sides)
    for side, successor in zip(sides, op.successors, strict=True):
        b.label(side)
        _enter(fl, successor)


@statement("tt.return")
def lower_return(fl: FunctionLowering, op: Op) -> None:
    """The end of the kernel, or of a call that is lowered in place."""
    frame = fl.frames[-1]
    values: list[Lanes | None] = []
    for value in op.operands:
        if isinstance(value.type, Tensor):
            fl.settle([value], (), keep=False)
            fl.materialise(value, frame.buffers[len(values)])
            values.append(None)
        else:
            # Its raw form is made here, where it dominates the edge to the caller's phi.
            values.append(Lanes(fl.scalar(value).type, fl.raw(value)))
    frame.returns.append((values, fl.b.block))
    fl.b.jump(frame.exit)


@statement("tt.call")
def lower_call(fl: FunctionLowering, op: Op) -> None:
    """A function that Triton did not inline is lowered in place, so program ids and tiles need no passing."""
    b = fl.b
    callee = fl.kernel.function(op.attributes["callee"])
    if callee.name in fl.calls:
        raise fl.unsupported(op, f"function {callee.name} calls itself")
    _compute_pending(fl)
    for arg, operand in zip(callee.args, op.operands, strict=True):
        if isinstance(operand.type, Tensor):
            fl.settle([operand], (), keep=False)
            binding = fl.bindings.get(operand)
            fl.bind(arg, binding if isinstance(binding, Buffer) else fl.materialise(operand))
        else:
            fl.bind(arg, fl.scalar(operand))
    frame = Frame(
        b.fresh("return"),
        {i: fl.buffer(v.type.shape, v.type.element) for i, v in enumerate(op.results) if isinstance(v.type, Tensor)},
    )
    fl.frames.append(frame)
    fl.calls.append(callee.name)
    saved = fl.schedule
    fl.schedule = fl.schedules[callee.name]
    pending, fl.pending = fl.pending, []
    lower_blocks(fl, callee.body, b.fresh("call"))
    fl.schedule, fl.pending = saved, pending
    fl.calls.pop()
    fl.frames.pop()
    b.label(frame.exit)
    for i, result in enumerate(op.results):
        if i in frame.buffers:
            fl.bind(result, frame.buffers[i])
            continue
        incoming = [(value.raw(b), origin) for values, origin in frame.returns if (value := values[i]) is not None]
        fl.bind(result, Lanes(result.type, b.phi(incoming[0][0].type, incoming)))  # type: ignore[arg-type]
