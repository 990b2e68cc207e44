"""Whole kernels: control flow, calls, grids, arguments, shapes, assertions."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import apply

from omnikernel.errors import ArgumentTypeError, DeviceAssertionError, UnsupportedOp
from omnikernel.ir.tile import Block, Constant, Function, Kernel, Location, Op, Region, Successor, Value
from omnikernel.ir.types import F32, I1, I32, I64, Pointer, Scalar
from omnikernel.reference import run


class Writer:
    """Builds ops one by one."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def op(self, name: str, operands=(), types=(), **attributes) -> Value:
        results = tuple(Value(f"v{len(self.ops)}", t) for t in types)
        self.ops.append(Op(name, tuple(operands), results, attributes))
        return results[0] if results else None

    def number(self, value: int, type_=I32) -> Value:
        return self.op("arith.constant", (), [type_], value=Constant((value & ((1 << type_.bits) - 1),), type_))

    def block(self, label: str = "entry", args=()) -> Block:
        return Block(label, tuple(args), tuple(self.ops))


def kernel_of(args, *blocks: Block, others=()) -> Kernel:
    return Kernel((Function("k", tuple(args), (), Region(tuple(blocks))), *others))


def store_at(w: Writer, base: Value, index: Value, value: Value) -> None:
    at = w.op("tt.addptr", [base, index], [base.type])
    w.op("tt.store", [at, value])


def test_grid_order_and_program_ids() -> None:
    out = Value("out", Pointer(I32))
    w = Writer()
    x, y, z = (w.op("tt.get_program_id", (), [I32], axis=a) for a in range(3))
    nx, ny = (w.op("tt.get_num_programs", (), [I32], axis=a) for a in range(2))
    zy = w.op("arith.addi", [w.op("arith.muli", [z, ny], [I32]), y], [I32])
    p = w.op("arith.addi", [w.op("arith.muli", [zy, nx], [I32]), x], [I32])
    counter = w.op("tt.atomic_rmw", [out, w.number(1)], [I32], kind="add")
    store_at(w, out, w.op("arith.addi", [p, w.number(1)], [I32]), counter)
    w.op("tt.return")
    memory = np.zeros(1 + 2 * 3 * 4, np.int32)
    run(kernel_of([out], w.block()), [memory.ctypes.data], (2, 3, 4))
    assert memory.tolist() == [24, *range(24)]
    run(kernel_of([out], w.block()), [memory.ctypes.data], (2, 0, 4))
    assert memory[0] == 24


def loop(low: int, high: int, step: int, type_=I32, unsigned: bool = False) -> tuple[int, int]:
    """The number of trips and the last index of a loop, by a kernel."""
    out = Value("out", Pointer(I64))
    w, body = Writer(), Writer()
    bounds = [w.number(v, type_) for v in (low, high, step)]
    zero, one = w.number(0, I64), w.number(1, I64)
    index, count, last = Value("i", type_), Value("n", I64), Value("l", I64)
    more = body.op("arith.addi", [count, one], [I64])
    now = body.op("arith.extsi", [index], [I64]) if type_ is not I64 else index
    body.op("scf.yield", [more, now])
    made = (Value("trips", I64), Value("final", I64))
    region = Region((body.block("", [index, count, last]),))
    w.ops.append(Op("scf.for", (*bounds, zero, zero), made, {"unsigned": True} if unsigned else {}, (region,)))
    store_at(w, out, w.number(0), made[0])
    store_at(w, out, w.number(1), made[1])
    w.op("tt.return")
    memory = np.zeros(2, np.int64)
    run(kernel_of([out], w.block()), [memory.ctypes.data], (1, 1, 1))
    return int(memory[0]), int(memory[1])


def test_for() -> None:
    assert loop(0, 10, 3) == (4, 9)
    assert loop(5, 5, 1) == (0, 0)
    assert loop(7, 2, 1) == (0, 0)
    assert loop(-4, 4, 2, I64) == (4, 2)
    assert loop(2**31 - 3, 2**31 - 1, 2) == (1, 2**31 - 3)  # the next index would wrap
    assert loop(-2, -1, 1, I32, True) == (1, -2)
    assert loop(1, -(2**31), 2**30, I32, True) == (2, 2**30 + 1)
    with pytest.raises(ValueError, match="step must be positive"):
        loop(0, 1, 0)


def test_while_and_if() -> None:
    """Collatz steps of 27."""
    out = Value("out", Pointer(I32))
    w, before, after, odd, even = (Writer() for _ in range(5))
    n, steps = Value("n", I32), Value("steps", I32)
    one = w.number(1)
    before.op("scf.condition", [before.op("arith.cmpi", [n, one], [I1], predicate="ne"), n, steps])
    m, s = Value("m", I32), Value("s", I32)
    is_odd = after.op("arith.trunci", [m], [I1])
    tripled = odd.op("arith.muli", [m, odd.number(3)], [I32])
    odd.op("scf.yield", [odd.op("arith.addi", [tripled, one], [I32])])
    even.op("scf.yield", [even.op("arith.shrui", [m, one], [I32])])
    following = Value("following", I32)
    after.ops.append(Op("scf.if", (is_odd,), (following,), {}, (Region((odd.block(),)), Region((even.block(),)))))
    after.op("scf.yield", [following, after.op("arith.addi", [s, one], [I32])])
    made = (Value("end", I32), Value("count", I32))
    regions = (Region((before.block("", [n, steps]),)), Region((after.block("", [m, s]),)))
    w.ops.append(Op("scf.while", (w.number(27), w.number(0)), made, {}, regions))
    w.op("tt.store", [out, made[1]])
    w.op("tt.return")
    memory = np.zeros(1, np.int32)
    run(kernel_of([out], w.block()), [memory.ctypes.data], (1, 1, 1))
    assert memory[0] == 111


def test_blocks_with_early_return_and_arguments() -> None:
    out, n = Value("out", Pointer(I32)), Value("n", I32)
    first, rest, done = Writer(), Writer(), Writer()
    p = first.op("tt.get_program_id", (), [I32], axis=0)
    inside = first.op("arith.cmpi", [p, n], [I1], predicate="slt")
    first.ops.append(Op("cf.cond_br", (inside,), successors=(Successor("rest", (p,)), Successor("done"))))
    q = Value("q", I32)
    store_at(rest, out, p, q)
    rest.ops.append(Op("cf.br", successors=(Successor("done"),)))
    done.op("tt.return")
    kernel = kernel_of([out, n], first.block(), rest.block("rest", [q]), done.block("done"))
    memory = np.full(6, -1, np.int32)
    run(kernel, [memory.ctypes.data, 4], (6, 1, 1))
    assert memory.tolist() == [0, 1, 2, 3, -1, -1]


def test_calls_have_frames_of_their_own() -> None:
    """A recursive factorial with two results."""
    n = Value("n", I32)
    top, deep, base = Writer(), Writer(), Writer()
    one = top.number(1)
    top.ops.append(
        Op(
            "cf.cond_br",
            (top.op("arith.cmpi", [n, one], [I1], predicate="sle"),),
            successors=(Successor("base"), Successor("deep")),
        )
    )
    base.op("tt.return", [one, n])
    inner = (Value("f", I32), Value("least", I32))
    deep.ops.append(Op("tt.call", (deep.op("arith.subi", [n, one], [I32]),), inner, {"callee": "fact"}))
    deep.op("tt.return", [deep.op("arith.muli", [inner[0], n], [I32]), inner[1]])
    fact = Function(
        "fact", (n,), (I32, I32), Region((top.block(), base.block("base"), deep.block("deep"))), public=False
    )
    out = Value("out", Pointer(I32))
    w = Writer()
    made = (Value("a", I32), Value("b", I32))
    w.ops.append(Op("tt.call", (w.number(5),), made, {"callee": "fact"}))
    store_at(w, out, w.number(0), made[0])
    store_at(w, out, w.number(1), made[1])
    w.op("tt.return")
    memory = np.zeros(2, np.int32)
    run(kernel_of([out], w.block(), others=[fact]), [memory.ctypes.data], (1, 1, 1))
    assert memory.tolist() == [120, 1]


@pytest.mark.parametrize(
    ("kind", "slot", "want"),
    [
        ("i32", 2**32 - 1, -1),
        ("i32", -7, -7),
        ("i64", 2**63 + 1, -(2**63) + 1),
        ("i1", True, 1),
        ("i8", 200, -56),
        ("f32", 3.4028236e38, np.inf),
        ("f32", 0.1, np.float32(0.1)),
        ("f64", 0.1, 0.1),
        ("f16", 0.1, np.float16(0.1)),
        ("bf16", 3.141592653589793, 3.140625),
    ],
)
def test_scalar_arguments(kind: str, slot, want) -> None:
    type_ = Scalar(kind)
    out, value = Value("out", Pointer(type_)), Value("v", type_)
    w = Writer()
    w.op("tt.store", [out, value])
    w.op("tt.return")
    from omnikernel.reference.registry import DTYPES

    memory = np.zeros(1, DTYPES[kind])
    run(kernel_of([out, value], w.block()), [memory.ctypes.data, slot], (1, 1, 1))
    assert memory.astype(np.float64 if kind[0] in "fb" else np.int64)[0] == want


def test_bad_arguments_are_refused() -> None:
    out = Value("out", Pointer(F32))
    kernel = kernel_of([out], Block("entry", (), (Op("tt.return"),)))
    with pytest.raises(ArgumentTypeError, match="k takes 1 arguments, got 2"):
        run(kernel, [1, 2], (1, 1, 1))
    with pytest.raises(ArgumentTypeError, match=r"parameter out: expected an integer .* got 1\.5"):
        run(kernel, [1.5], (1, 1, 1))


def test_assert_names_program_line_and_message() -> None:
    ok = Value("ok", I1)
    op = Op("tt.assert", (ok,), (), {"message": "n is odd"}, loc=Location("kernel.py", 12, 4))
    kernel = kernel_of([ok], Block("entry", (), (op, Op("tt.return"))))
    run(kernel, [True], (2, 1, 1))
    with pytest.raises(DeviceAssertionError, match=r"k: .*program \(0, 0, 0\) at kernel\.py:12:4: n is odd"):
        run(kernel, [False], (2, 1, 1))


def test_unknown_op_is_refused_with_its_place() -> None:
    op = Op("tt.nothing", loc=Location("kernel.py", 3, 1))
    with pytest.raises(UnsupportedOp, match=r"tt\.nothing in k at kernel\.py:3:1"):
        run(kernel_of([], Block("entry", (), (op, Op("tt.return")))), [], (1, 1, 1))


def test_shapes() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert apply("tt.make_range", [], [], "i32", (4,), start=2, end=6).tolist() == [2, 3, 4, 5]
    assert apply("tt.splat", [np.int32(3)], ["i32"], "i32", (2, 2)).tolist() == [[3, 3], [3, 3]]
    assert apply("tt.unsplat", [np.array([[9]])], ["i32"], "i32", ()).tolist() == 9
    assert apply("tt.expand_dims", [x], ["i32"], "i32", (2, 1, 3), axis=1).shape == (2, 1, 3)
    assert apply("tt.broadcast", [x[:, :1]], ["i32"], "i32", (2, 4)).tolist() == [[0] * 4, [3] * 4]
    assert apply("tt.reshape", [x], ["i32"], "i32", (3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    y = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    moved = apply("tt.trans", [y], ["i32"], "i32", (4, 2, 3), order=(2, 0, 1))
    assert all(moved[k, i, j] == y[i, j, k] for i in range(2) for j in range(3) for k in range(4))


def test_observer_follows_programs_and_branches() -> None:
    class Log:
        def __init__(self) -> None:
            self.events: list[object] = []

        def program(self, x, y, z):
            self.events.append((x, y, z))

        def branch(self, op, taken):
            self.events.append(taken)

    c = Value("c", I1)
    empty = Region((Block("", (), (Op("scf.yield"),)),))
    kernel = kernel_of([c], Block("entry", (), (Op("scf.if", (c,), (), {}, (empty, Region(()))), Op("tt.return"))))
    log = Log()
    run(kernel, [False], (2, 1, 1), observer=log)
    assert log.events == [(0, 0, 0), False, (1, 0, 0), False]
