"""What the verifier asks of each op's shapes and types, beyond counts: one rule a kind or an op, by name.

A rule takes an op and raises `Wrong` with what it found and what it expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .tile import Block, Constant, Op, Region, Value
from .types import I1, Descriptor, Pointer, Scalar, Tensor, Type, element_of, like, shape_of


class Wrong(Exception):
    """A rule is broken; the verifier adds kernel, op and location."""


Rule = Callable[[Op], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for ops or for kinds of ops."""

    def register(check: Rule) -> Rule:
        for name in names:
            RULES[name] = check
        return check

    return register


def types_of(values: Iterable[Value]) -> tuple[Type, ...]:
    return tuple(value.type for value in values)


def texts(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


def _same(op: Op, found: Type, wanted: Type, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what} is {found}, expected {wanted}")


def _same_all(found: Sequence[Type], wanted: Sequence[Type], what: str) -> None:
    if tuple(found) != tuple(wanted):
        raise Wrong(f"{what} ({texts(found)}), expected ({texts(wanted)})")


def _tile(type_: Type, what: str) -> Tensor:
    if not isinstance(type_, Tensor):
        raise Wrong(f"{what} is {type_}, expected a tile")
    return type_


def _yielded(region: Region) -> tuple[Type, ...]:
    return types_of(region.blocks[-1].ops[-1].operands)


def _only(region: Region) -> Block:
    if len(region.blocks) != 1:
        raise Wrong(f"a region of {len(region.blocks)} blocks, expected one")
    return region.blocks[0]


# --- elementwise -------------------------------------------------------------------------------------------------

# Operand, or operand and result, of one type.
_UNIFORM_NAMES = (
    "arith.addi arith.subi arith.muli arith.divsi arith.remsi arith.divui arith.remui arith.ceildivsi arith.ceildivui"
    " arith.floordivsi arith.andi arith.ori arith.xori arith.shli arith.shrsi arith.shrui arith.addf arith.subf"
    " arith.mulf arith.divf arith.remf arith.negf arith.maxsi arith.maxui arith.minsi arith.minui arith.maximumf"
    " arith.minimumf arith.maxnumf arith.minnumf tt.clampf tt.precise_sqrt tt.precise_divf tt.mulhiui"
)
_UNIFORM = frozenset(_UNIFORM_NAMES.split())
_SCALAR_TOO = frozenset({"arith.select"})


@rule("elementwise")
def elementwise(op: Op) -> None:
    wanted = op.results[0].type
    shape = shape_of(wanted)
    if op.name in _UNIFORM or op.name.startswith("math."):
        for operand in op.operands:
            if operand.type != wanted:
                raise Wrong(f"{operand!r}, expected {wanted} as the result")
        return
    start = 1 if op.name in _SCALAR_TOO and not shape_of(op.operands[0].type) else 0
    for value in (*op.operands[start:], *op.results[1:]):
        if shape_of(value.type) != shape:
            raise Wrong(f"{value!r} has not the shape of the result {wanted}")


@rule("arith.constant")
def constant(op: Op) -> None:
    value = op.attributes["value"]
    if not isinstance(value, Constant):
        raise Wrong(f"the value is {value!r}, expected a Constant")
    _same(op, value.type, op.result.type, "the value")
    size = value.type.size if isinstance(value.type, Tensor) else 1
    if len(value.elements) not in (1, size):
        raise Wrong(f"{len(value.elements)} elements for {value.type}")


@rule("arith.cmpi", "arith.cmpf")
def comparison(op: Op) -> None:
    left, right = op.operands
    _same(op, right.type, left.type, "the second operand")
    _same(op, op.result.type, like(left.type, I1), "the result")
    if not isinstance(op.attributes["predicate"], str):
        raise Wrong("no predicate")


@rule("arith.select")
def select(op: Op) -> None:
    condition, left, right = op.operands
    _same(op, right.type, left.type, "the third operand")
    _same(op, op.result.type, left.type, "the result")
    _same(op, element_of(condition.type), I1, "the condition's element")


@rule("arith.bitcast", "tt.bitcast")
def bitcast(op: Op) -> None:
    source, made = element_of(op.operands[0].type), element_of(op.result.type)
    if source.bits != made.bits:
        raise Wrong(f"{source} and {made} differ in width")


@rule("tt.addptr")
def addptr(op: Op) -> None:
    pointer, offset = op.operands
    _same(op, op.result.type, pointer.type, "the result")
    if not isinstance(element_of(pointer.type), Pointer):
        raise Wrong(f"{pointer!r} is no pointer")
    kind = element_of(offset.type)
    if not (isinstance(kind, Scalar) and kind.is_integer):
        raise Wrong(f"{offset!r} is no integer")


# --- shape -------------------------------------------------------------------------------------------------------


@rule("tt.make_range")
def make_range(op: Op) -> None:
    made = _tile(op.result.type, "the result")
    start, end = op.attributes["start"], op.attributes["end"]
    if made.shape != (end - start,):
        raise Wrong(f"{made} for [{start}, {end})")


@rule("tt.splat")
def splat(op: Op) -> None:
    made = _tile(op.result.type, "the result")
    _same(op, op.operands[0].type, made.element, "the operand")


@rule("tt.unsplat")
def unsplat(op: Op) -> None:
    source = _tile(op.operands[0].type, "the operand")
    _same(op, op.result.type, source.element, "the result")
    if source.size != 1:
        raise Wrong(f"{source} has more than one element")


def _moved(op: Op) -> tuple[Tensor, Tensor]:
    source, made = _tile(op.operands[0].type, "the operand"), _tile(op.result.type, "the result")
    _same(op, made.element, source.element, "the result's element")
    return source, made


@rule("tt.broadcast")
def broadcast(op: Op) -> None:
    source, made = _moved(op)
    if source.rank != made.rank or any(s not in (1, m) for s, m in set(zip(source.shape, made.shape, strict=True))):
        raise Wrong(f"{source} does not broadcast to {made}")


@rule("tt.expand_dims")
def expand_dims(op: Op) -> None:
    source, made = _moved(op)
    axis = op.attributes["axis"]
    if made.shape != (*source.shape[:axis], 1, *source.shape[axis:]):
        raise Wrong(f"{made} from {source} at axis {axis}")


@rule("tt.reshape")
def reshape(op: Op) -> None:
    source, made = _moved(op)
    if source.size != made.size:
        raise Wrong(f"{source.size} elements reshaped to {made.size}")


@rule("tile.flip", "tile.partner")
def flip(op: Op) -> None:
    source, made = _moved(op)
    if made.shape != source.shape or source.shape[op.attributes["axis"]] != 2:
        raise Wrong(f"{made} from {source} along axis {op.attributes['axis']}")


@rule("tile.network")
def network(op: Op) -> None:
    source, made = _moved(op)
    size = source.size
    for bit, side, _ in op.attributes["steps"]:
        if size < 2 << bit:
            raise Wrong(f"bit {bit} of the place in {size} elements")
        size >>= side == 0
    if made.shape != (size,):
        raise Wrong(f"{made} from {source}: {size} elements are left")


@rule("tt.trans")
def trans(op: Op) -> None:
    source, made = _moved(op)
    order = op.attributes["order"]
    if sorted(order) != list(range(source.rank)):
        raise Wrong(f"order {order} is no permutation of {source.rank} dimensions")
    if made.shape != tuple(source.shape[i] for i in order):
        raise Wrong(f"{made} from {source} by order {order}")


# --- memory ------------------------------------------------------------------------------------------------------


def _pointee(value: Value) -> Type:
    kind = element_of(value.type)
    if not isinstance(kind, Pointer):
        raise Wrong(f"{value!r} is no pointer")
    return kind.pointee if isinstance(kind.pointee, Tensor) else like(value.type, element_of(kind.pointee))


def _mask(op: Op, mask: Value, values: Type) -> None:
    _same(op, mask.type, like(values, I1), "the mask")


@rule("tt.load")
def load(op: Op) -> None:
    made = _pointee(op.operands[0])
    _same(op, op.result.type, made, "the result")
    if len(op.operands) > 1:
        _mask(op, op.operands[1], made)
    if len(op.operands) > 2:
        _same(op, op.operands[2].type, made, "other")


@rule("tt.store", "tt.atomic_rmw")
def store(op: Op) -> None:
    wanted = _pointee(op.operands[0])
    _same(op, op.operands[1].type, wanted, "the value")
    if len(op.operands) > 2:
        _mask(op, op.operands[2], wanted)
    if op.results:
        _same(op, op.result.type, wanted, "the result")


@rule("tt.atomic_cas")
def atomic_cas(op: Op) -> None:
    wanted = _pointee(op.operands[0])
    for value in (*op.operands[1:], op.result):
        _same(op, value.type, wanted, f"%{value.name}")


@rule("tt.descriptor_load")
def descriptor_load(op: Op) -> None:
    if not isinstance(op.operands[0].type, Descriptor):
        raise Wrong(f"{op.operands[0]!r} is no descriptor")


# --- reduce and dot ----------------------------------------------------------------------------------------------


@rule("tt.reduce", "tt.scan")
def combine(op: Op) -> None:
    sources = [_tile(value.type, f"%{value.name}") for value in op.operands]
    shape, axis = sources[0].shape, op.attributes["axis"]
    if not 0 <= axis < len(shape):
        raise Wrong(f"axis {axis} of {len(shape)} dimensions")
    if any(source.shape != shape for source in sources):
        raise Wrong(f"operands of different shapes: {texts(sources)}")
    elements = [source.element for source in sources]
    left = shape if op.name == "tt.scan" else shape[:axis] + shape[axis + 1 :]
    made = [Tensor(left, e) if left else e for e in elements]
    _same_all(types_of(op.results), made, "results are")
    region = op.regions[0]
    if not region.blocks:
        raise Wrong("an empty region")
    _same_all(types_of(region.blocks[0].args), elements * 2, "the region takes")
    for block in region.blocks:
        if block.ops[-1].name.endswith(".return"):
            _same_all(types_of(block.ops[-1].operands), elements, "the region returns")


@rule("tt.dot")
def dot(op: Op) -> None:
    a, b, c = (_tile(value.type, f"%{value.name}") for value in op.operands)
    _same(op, op.result.type, c, "the result")
    ranks = {a.rank, b.rank, c.rank}
    if len(ranks) != 1 or a.rank not in (2, 3):
        raise Wrong(f"{a} times {b} plus {c}: ranks must agree and be 2 or 3")
    batch = a.shape[:-2]
    if b.shape != (*batch, a.shape[-1], b.shape[-1]) or c.shape != (*batch, a.shape[-2], b.shape[-1]):
        raise Wrong(f"{a} times {b} plus {c}: extents do not fit")


# --- control -----------------------------------------------------------------------------------------------------


@rule("scf.for")
def for_loop(op: Op) -> None:
    lower, upper, step, *initial = types_of(op.operands)
    block = _only(op.regions[0])
    _same_all((upper, step), (lower, lower), "upper bound and step are")
    _same_all(types_of(op.results), initial, "results are")
    _same_all(types_of(block.args), (lower, *initial), "the body takes")
    _same_all(_yielded(op.regions[0]), initial, "the body yields")


@rule("scf.while")
def while_loop(op: Op) -> None:
    before, after = op.regions
    initial, results = types_of(op.operands), types_of(op.results)
    _same_all(types_of(_only(before).args), initial, "the first region takes")
    condition = _only(before).terminator
    if condition.name != "scf.condition" or _only(after).terminator.name != "scf.yield":
        raise Wrong("the first region must end in scf.condition, the second in scf.yield")
    _same(op, condition.operands[0].type, I1, "the condition")
    _same_all(types_of(condition.operands[1:]), results, "the first region passes on")
    _same_all(types_of(_only(after).args), results, "the second region takes")
    _same_all(_yielded(after), initial, "the second region yields")


@rule("scf.if")
def branch(op: Op) -> None:
    _same(op, op.operands[0].type, I1, "the condition")
    results = types_of(op.results)
    then, other = op.regions
    if not then.blocks or (results and not other.blocks):
        raise Wrong("a branch is missing")
    for region in (then, other):
        if region.blocks:
            _only(region)
            _same_all(_yielded(region), results, "a branch yields")


@rule("cf.cond_br", "llvm.intr.assume")
def condition(op: Op) -> None:
    _same(op, op.operands[0].type, I1, "the condition")


@rule("tt.get_program_id", "tt.get_num_programs")
def program(op: Op) -> None:
    if op.attributes["axis"] not in (0, 1, 2):
        raise Wrong(f"axis {op.attributes['axis']}")
