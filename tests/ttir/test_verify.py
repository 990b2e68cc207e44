"""The verifier finds seeded faults, and says where."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from reading import corpus

from omnikernel.errors import VerifyError
from omnikernel.ir.ops import SCHEMA
from omnikernel.ir.tile import Block, Constant, Function, Kernel, Op, Region, Value
from omnikernel.ir.types import F32, I1, I32, Tensor
from omnikernel.ir.verify import verify
from omnikernel.ttir import parse

ARGS = (
    "%n: i32, %c: i1, %f: f32, %p: !tt.ptr<f32>, %q: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %x: tensor<8xf32>,"
    " %i: tensor<8xi32>, %y: tensor<4x8xf32>, %h: tensor<8xf16>"
)


def kernel(body: str, results: str = "") -> Kernel:
    """A kernel in the printer's form, where operand types are not repeated, so that wrong ones can be written."""
    return parse(f'kernel "3.7.1" {{\n  func public @k({ARGS}){results} {{\n    {body}\n  }}\n}}\n')


def ends(body: str) -> str:
    return f"{body}\n    tt.return"


GOOD = [
    "%0: tensor<8xf32> = arith.addf %x, %x",
    "%0: tensor<8xf32> = arith.select %c, %x, %x",
    "%0: tensor<8xf32> = tt.load %q, %m, %x",
    "%0: tensor<8xf32> = tt.load %q, %m",
    "%0: f32 = tt.load %p, %c, %f",
    "tt.store %q, %x, %m",
    "%0: i32 = scf.for %n, %n, %n, %n ({\n ^bb0(%k: i32, %s: i32):\n scf.yield %k\n })",
    "%0: f32 = tt.reduce %x {axis = 0} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %a\n })",
    "%0: tensor<8xf32> = tt.reduce %y {axis = 0} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %a\n })",
    "%0: tensor<8xf32> = tt.reshape %x",
    "%0: tensor<8x4xf32> = tt.trans %y {order = [1, 0]}",
    "%0: tensor<8xf32> = arith.extf %h",
    "scf.if %c ({\n scf.yield\n }, {\n })",
]

BAD = [
    # counts
    ("%0: tensor<8xf32> = arith.addf %x", "1 operands, expected 2"),
    ("arith.addf %x, %x", "0 results, expected 1"),
    ("%0: tensor<8xf32> = tt.load %q, %m, %x, %x", "4 operands, expected 1 to 3"),
    ("scf.for %n, %n", "2 operands, expected 3 or more"),
    ("scf.for %n, %n, %n", "0 regions, expected 1"),
    # elementwise
    ("%0: tensor<8xf32> = arith.addf %x, %h", "%h: tensor<8xf16>, expected tensor<8xf32> as the result"),
    ("%0: tensor<4xf32> = arith.negf %x", "expected tensor<4xf32> as the result"),
    ("%0: tensor<4xf16> = arith.truncf %x", "has not the shape of the result tensor<4xf16>"),
    ('%0: tensor<8xf32> = arith.cmpf %x, %x {predicate = "oeq"}', "the result is tensor<8xf32>, expected tensor<8xi1>"),
    ("%0: tensor<8xi1> = arith.cmpf %x, %x", "attribute or type missing: 'predicate'"),
    ("%0: tensor<8xf32> = arith.select %x, %x, %x", "the condition's element is f32, expected i1"),
    ("%0: tensor<8xf32> = arith.select %m, %x, %h", "the third operand is tensor<8xf16>"),
    ("%0: tensor<8xi32> = arith.bitcast %h", "f16 and i32 differ in width"),
    ("%0: tensor<8x!tt.ptr<f32>> = tt.addptr %q, %x", "is no integer"),
    ("%0: tensor<8xi32> = tt.addptr %i, %i", "is no pointer"),
    # shapes
    ("%0: tensor<8xi32> = tt.make_range {start = 0, end = 4}", "tensor<8xi32> for [0, 4)"),
    ("%0: tensor<8xf32> = tt.splat %n", "the operand is i32, expected f32"),
    ("%0: f32 = tt.unsplat %x", "tensor<8xf32> has more than one element"),
    ("%0: tensor<16xf32> = tt.broadcast %x", "tensor<8xf32> does not broadcast to tensor<16xf32>"),
    ("%0: tensor<8x1xf32> = tt.expand_dims %x {axis = 0}", "tensor<8x1xf32> from tensor<8xf32> at axis 0"),
    ("%0: tensor<4x3xf32> = tt.reshape %x", "8 elements reshaped to 12"),
    ("%0: tensor<4x8xf32> = tt.trans %y {order = [0, 0]}", "order (0, 0) is no permutation"),
    ("%0: tensor<4x8xf32> = tt.trans %y {order = [1, 0]}", "tensor<4x8xf32> from tensor<4x8xf32> by order (1, 0)"),
    # memory
    ("%0: tensor<8xf32> = tt.load %x", "is no pointer"),
    ("%0: tensor<8xf16> = tt.load %q", "the result is tensor<8xf16>, expected tensor<8xf32>"),
    ("%0: tensor<8xf32> = tt.load %q, %c", "the mask is i1, expected tensor<8xi1>"),
    ("%0: tensor<8xf32> = tt.load %q, %m, %h", "other is tensor<8xf16>"),
    ("tt.store %q, %h", "the value is tensor<8xf16>, expected tensor<8xf32>"),
    ('%0: f32 = tt.atomic_rmw %q, %x {kind = "fadd"}', "the result is f32"),
    ("%0: tensor<8xf32> = tt.atomic_cas %q, %x, %h", "%h is tensor<8xf16>"),
    # reduce and dot
    (
        "%0: f32 = tt.reduce %x {axis = 1} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %a\n })",
        "axis 1 of 1 dimensions",
    ),
    (
        "%0: f32 = tt.reduce %y {axis = 0} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %a\n })",
        "results are (f32), expected (tensor<8xf32>)",
    ),
    (
        "%0: f32 = tt.reduce %x {axis = 0} ({\n ^bb0(%a: f32):\n tt.reduce.return %a\n })",
        "the region takes (f32), expected (f32, f32)",
    ),
    (
        "%0: f32 = tt.reduce %x {axis = 0} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %n\n })",
        "the region returns (i32), expected (f32)",
    ),
    (
        "%0: f32, %1: f32 = tt.reduce %x, %y {axis = 0} ({\n ^bb0(%a: f32, %b: f32):\n tt.reduce.return %a\n })",
        "operands of different shapes",
    ),
    ("%0: tensor<4x8xf32> = tt.dot %y, %y, %y", "extents do not fit"),
    ("%0: tensor<8xf32> = tt.dot %x, %x, %x", "ranks must agree and be 2 or 3"),
    # control
    (
        "scf.for %n, %n, %c ({\n ^bb0(%k: i32):\n scf.yield\n })",
        "upper bound and step are (i32, i1), expected (i32, i32)",
    ),
    ("scf.for %n, %n, %n ({\n ^bb0(%k: i1):\n scf.yield\n })", "the body takes (i1), expected (i32)"),
    (
        "%0: f32 = scf.for %n, %n, %n, %n ({\n ^bb0(%k: i32, %s: i32):\n scf.yield %s\n })",
        "results are (f32), expected (i32)",
    ),
    (
        "%0: i32 = scf.for %n, %n, %n, %n ({\n ^bb0(%k: i32, %s: i32):\n scf.yield %f\n })",
        "the body yields (f32), expected (i32)",
    ),
    (
        "%0: i32 = scf.for %n, %n, %n, %n ({\n ^bb0(%k: i32, %s: i32):\n scf.yield\n })",
        "the body yields (), expected (i32)",
    ),
    ("scf.for %n, %n, %n ({\n ^bb0(%k: i32):\n tt.return\n })", "cannot end a region of scf.for"),
    ("scf.if %n ({\n scf.yield\n }, {\n })", "the condition is i32, expected i1"),
    ("%0: i32 = scf.if %c ({\n scf.yield %n\n }, {\n })", "a branch is missing"),
    ("%0: i32 = scf.if %c ({\n scf.yield %n\n }, {\n scf.yield %f\n })", "a branch yields (f32), expected (i32)"),
    (
        "%0: i32 = scf.while %n ({\n ^bb0(%a: i32):\n scf.condition %n, %a\n }, {\n ^bb0(%b: i32):\n scf.yield %b\n })",
        "the condition is i32, expected i1",
    ),
    (
        "%0: i32 = scf.while %n ({\n ^bb0(%a: i32):\n scf.condition %c, %a\n }, {\n ^bb0(%b: f32):\n scf.yield %n\n })",
        "the second region takes (f32), expected (i32)",
    ),
    (
        "%0: i32 = scf.while %n ({\n ^bb0(%a: i32):\n scf.yield %a\n }, {\n ^bb0(%b: i32):\n scf.yield %b\n })",
        "the first region must end in scf.condition",
    ),
    ("tt.return\n    %0: i32 = arith.addi %n, %n", "a terminator in the middle of a block"),
    ("%0: i32 = tt.get_program_id {axis = 3}", "axis 3"),
    ('tt.call %n {callee = "nowhere"}', "no function @nowhere"),
    ('tt.call %n {callee = "k"}', "called as (i32) -> ()"),
]


@pytest.mark.parametrize("body", GOOD)
def test_right_ones_pass(body: str) -> None:
    verify(kernel(ends(body)))


@pytest.mark.parametrize(("body", "message"), BAD)
def test_seeded_faults(body: str, message: str) -> None:
    name = re.match(r"(?:%.*? = )?([\w.]+)", body)
    assert name is not None
    with pytest.raises(VerifyError, match=re.escape(message)) as caught:
        verify(kernel(ends(body)))
    assert str(caught.value).startswith("kernel k: op ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%0: i32 = arith.addi %n, %n", "op arith.addi at unknown location: the block ends without a terminator"),
        ("cf.br -> ^bb7", "no block ^bb7 in this region"),
        ("cf.br -> ^bb1(%f)\n  ^bb1(%a: i32):\n    tt.return", "passes (f32) to ^bb1, which takes (i32)"),
        ("cf.br -> ^bb1\n  ^bb1(%a: i32):\n    tt.return", "passes () to ^bb1, which takes (i32)"),
        ("cf.cond_br %c -> ^bb1\n  ^bb1:\n    tt.return", "1 successors, expected 2"),
        ("cf.cond_br %n -> ^bb1, ^bb1\n  ^bb1:\n    tt.return", "the condition is i32, expected i1"),
        ("tt.return %n", "returns (i32), expected ()"),
        ("scf.yield", "cannot end a function"),
        ("cf.br -> ^bb1\n  ^bb1:\n  ^bb2:\n    tt.return", "block bb1 is empty"),
        ("cf.br -> ^bb1\n  ^bb1:\n    tt.return\n  ^bb1:\n    tt.return", "two blocks have one label"),
    ],
)
def test_faults_of_whole_functions(body: str, message: str) -> None:
    with pytest.raises(VerifyError, match=re.escape(message)):
        verify(kernel(body))


def test_dominance_over_blocks() -> None:
    diamond = (
        "cf.cond_br %c -> ^bb1, ^bb2\n  ^bb1:\n    %0: i32 = arith.addi %n, %n\n    cf.br -> ^bb3\n"
        "  ^bb2:\n    cf.br -> ^bb3\n  ^bb3:\n    {}\n    tt.return"
    )
    verify(kernel(diamond.format("%1: i32 = arith.addi %n, %n")))
    with pytest.raises(
        VerifyError, match=r"op arith.addi at unknown location: %0: i32 is used where it is not defined"
    ):
        verify(kernel(diamond.format("%1: i32 = arith.addi %0, %n")))


def test_a_loop_of_blocks() -> None:
    loop = (
        "cf.br -> ^bb1(%n)\n  ^bb1(%a: i32):\n    %0: i32 = arith.addi %a, %n\n"
        "    cf.cond_br %c -> ^bb1(%0), ^bb2\n  ^bb2:\n    %1: i32 = arith.addi %0, %a\n    tt.return"
    )
    verify(kernel(loop))


def test_blocks_that_stand_in_another_order() -> None:
    verify(
        kernel(
            "cf.br -> ^bb2\n  ^bb1:\n    %1: i32 = arith.addi %0, %n\n    tt.return\n  ^bb2:\n    %0: i32 = arith.addi %n, %n\n    cf.br -> ^bb1"
        )
    )


def test_very_many_blocks() -> None:
    """Early returns make chains of blocks; neither recursion nor time may grow out of hand."""
    chain = "".join(
        f"  ^bb{2 * i + 1}:\n    tt.return\n  ^bb{2 * i + 2}:\n    %{i}: i32 = arith.addi {'%n' if i == 0 else f'%{i - 1}'}, %n\n"
        f"    cf.cond_br %c -> ^bb{2 * i + 3}, ^bb{2 * i + 4}\n"
        for i in range(1500)
    )
    verify(kernel(f"cf.cond_br %c -> ^bb1, ^bb2\n{chain}  ^bb3001:\n    tt.return\n  ^bb3002:\n    tt.return"))


def test_dominance_in_a_tangle() -> None:
    """A value of the first block of a loop with two ways back and two ways out."""
    tangle = (
        "cf.br -> ^bb1\n  ^bb1:\n    %a: i32 = arith.addi %n, %n\n    cf.cond_br %c -> ^bb2, ^bb3\n"
        "  ^bb2:\n    %b: i32 = arith.addi %a, %n\n    cf.cond_br %c -> ^bb1, ^bb4\n"
        "  ^bb3:\n    cf.cond_br %c -> ^bb1, ^bb4\n  ^bb4:\n    %d: i32 = arith.addi {}, %n\n    tt.return"
    )
    verify(kernel(tangle.format("%a")))
    with pytest.raises(VerifyError, match="%b: i32 is used where it is not defined"):
        verify(kernel(tangle.format("%b")))


def test_unreachable_blocks_are_let_be() -> None:
    verify(kernel("tt.return\n  ^bb1:\n    %0: i32 = arith.addi %n, %n\n    tt.return"))


def test_values_of_a_region_stay_inside() -> None:
    inner = Value("inner", I32)
    one = Op("arith.constant", (), (inner,), {"value": Constant((1,), I32)})
    flag = Value("c", I1)
    then = Region((Block("bb0", (), (one, Op("scf.yield"))),))
    ops = (Op("scf.if", (flag,), regions=(then, Region(()))), Op("arith.addi", (inner, inner), (Value("s", I32),)))
    with pytest.raises(VerifyError, match="%inner: i32 is used where it is not defined"):
        verify(Kernel((Function("k", (flag,), (), Region((Block("bb0", (flag,), (*ops, Op("tt.return"))),))),)))


def test_a_value_defined_twice() -> None:
    value = Value("v", I32)
    one = Op("arith.constant", (), (value,), {"value": Constant((1,), I32)})
    with pytest.raises(
        VerifyError, match=r"after fold: kernel k: op arith.constant at unknown location: %v: i32 is defined twice"
    ):
        verify(whole(one, one), stage="fold")


def test_constants() -> None:
    tile = Tensor((4,), F32)
    for value, message in (
        (Constant((1, 2), tile), "2 elements for tensor<4xf32>"),
        (Constant((1,), F32), "the value is f32, expected tensor<4xf32>"),
        (1.0, "expected a Constant"),
    ):
        with pytest.raises(VerifyError, match=message):
            verify(whole(Op("arith.constant", (), (Value("c", tile),), {"value": value})))


def test_arguments_of_the_entry_block() -> None:
    arg = Value("a", I32)
    function = Function("k", (arg,), (), Region((Block("bb0", (Value("a", I32),), (Op("tt.return"),)),)))
    with pytest.raises(VerifyError, match="the entry block's arguments are not the function's"):
        verify(Kernel((function,)))


def whole(*ops: Op) -> Kernel:
    return Kernel((Function("k", (), (), Region((Block("bb0", (), (*ops, Op("tt.return"))),))),))


def without(kernel_: Kernel, drop: Callable[[Op], bool]) -> Kernel:
    """The kernel with some ops of its top level gone."""
    entry = kernel_.entry
    (block,) = entry.body.blocks
    kept = Block(block.label, block.args, tuple(op for op in block.ops if not drop(op)))
    return Kernel((Function(entry.name, entry.args, entry.results, Region((kept,))),), kernel_.version)


@pytest.mark.parametrize("name", ["vector_add", "softmax", "matmul", "attention", "integers", "random"])
def test_every_dropped_definition_is_missed(name: str) -> None:
    """Take any one op with a used result away from a real kernel: the verifier sees it, and names the user's line."""
    real = corpus("3.7.1", name)
    ops = real.entry.body.block.ops
    assert {op.name for op in ops} <= SCHEMA.keys()
    used = {id(operand) for op in ops for operand in op.operands}
    for victim in ops:
        if any(id(result) in used for result in victim.results):
            with pytest.raises(VerifyError, match=r"is used where it is not defined$") as caught:
                verify(without(real, lambda op, gone=victim: op is gone))  # type: ignore[misc]
            assert "kernel " + name in str(caught.value)
