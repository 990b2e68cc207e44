"""The printer: what a reader of dumps sees, and names that stay apart."""

from __future__ import annotations

from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Block, Constant, Function, Kernel, Op, Region, Successor, Value
from omnikernel.ir.types import F32, I1, I32, Pointer, Tensor
from omnikernel.ttir import parse

TTIR = """
module {
  tt.func public @copy(%a: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
    %cst = arith.constant dense<-2.500000e-01> : tensor<8xf32>
    %c0 = arith.constant 0 : i32
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %0 = tt.splat %a : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %1 = tt.addptr %0, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %2 = tt.splat %n : i32 -> tensor<8xi32>
    %m = arith.cmpi slt, %i, %2 : tensor<8xi32>
    %x = tt.load %1, %m, %cst evictionPolicy = evict_last : tensor<8x!tt.ptr<f32>>
    %3:2 = scf.for %k = %c0 to %n step %n iter_args(%y = %x, %z = %c0) -> (tensor<8xf32>, i32)  : i32 {
      %4 = arith.addf %y, %x : tensor<8xf32>
      scf.yield %4, %k : tensor<8xf32>, i32
    } {tt.num_stages = 2 : i32}
    %s = "tt.reduce"(%3#0) <{axis = 0 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %4 = arith.addf %l, %r : f32
      tt.reduce.return %4 : f32
    }) : (tensor<8xf32>) -> f32
    tt.store %a, %s : !tt.ptr<f32>
    tt.return
  }
}
"""

TILE = """\
kernel "3.7.1" {
  func public @copy(%a: !tt.ptr<f32> {tt.divisibility = 16}, %n: i32) {
    %cst: tensor<8xf32> = arith.constant dense<-0.25>
    %c0: i32 = arith.constant 0
    %i: tensor<8xi32> = tt.make_range {end = 8, start = 0}
    %0: tensor<8x!tt.ptr<f32>> = tt.splat %a
    %1: tensor<8x!tt.ptr<f32>> = tt.addptr %0, %i
    %2: tensor<8xi32> = tt.splat %n
    %m: tensor<8xi1> = arith.cmpi %i, %2 {predicate = "slt"}
    %x: tensor<8xf32> = tt.load %1, %m, %cst {evict = "evict_last"}
    %3.0: tensor<8xf32>, %3.1: i32 = scf.for %c0, %n, %n, %x, %c0 {tt.num_stages = 2} ({
    ^bb0(%k: i32, %y: tensor<8xf32>, %z: i32):
      %4: tensor<8xf32> = arith.addf %y, %x
      scf.yield %4, %k
    })
    %s: f32 = tt.reduce %3.0 {axis = 0} ({
    ^bb0(%l: f32, %r: f32):
      %4: f32 = arith.addf %l, %r
      tt.reduce.return %4
    })
    tt.store %a, %s
    tt.return
  }
}
"""


def test_what_it_looks_like() -> None:
    assert print_kernel(parse(TTIR, "3.7.1")) == TILE


def test_it_reads_its_own_text() -> None:
    assert print_kernel(parse(TILE)) == TILE


def test_locations_are_on_demand() -> None:
    text = 'module {\n tt.func public @k() {\n tt.return loc("/u/k.py":3:4)\n } loc("/u/k.py":1:0)\n}\n'
    kernel = parse(text)
    assert "loc" not in print_kernel(kernel)
    assert print_kernel(kernel, locations=True).splitlines()[2:4] == [
        '    tt.return loc("/u/k.py":3:4)',
        '  } loc("/u/k.py":1:0)',
    ]


def kernel_of(*blocks: Block, args: tuple[Value, ...] = ()) -> Kernel:
    return Kernel((Function("k", args, (), Region(blocks)),), "3.9.0")


def test_values_of_one_name_get_suffixes() -> None:
    """Passes make values freely; MLIR's own text would clash here."""
    first, second, third = (Value("x", I32) for _ in range(3))
    one = Constant((1,), I32)
    ops = tuple(Op("arith.constant", (), (value,), {"value": one}) for value in (first, second, third))
    total = Op("arith.addi", (second, third), (Value("sum of 1", I32),))
    text = print_kernel(kernel_of(Block("bb0", (), (*ops, total, Op("tt.return")))))
    assert "%x_0: i32 = arith.constant 1\n    %x_1: i32" in text
    assert "%sum_of_1: i32 = arith.addi %x_0, %x_1" in text
    assert print_kernel(parse(text)) == text


def test_blocks_in_any_order() -> None:
    """A block may use a value of a block that stands below it."""
    flag, late = Value("c", I1), Value("late", I32)
    made = Op("arith.constant", (), (late,), {"value": Constant((5,), I32)})
    use = Op("arith.addi", (late, late), (Value("sum", I32),))
    blocks = (
        Block("bb0", (flag,), (Op("cf.br", successors=(Successor("bb2"),)),)),
        Block("bb1", (), (use, Op("tt.return"))),
        Block("bb2", (), (made, Op("cf.cond_br", (flag,), successors=(Successor("bb1"), Successor("bb1"))))),
    )
    text = print_kernel(kernel_of(*blocks, args=(flag,)))
    again = parse(text)
    assert print_kernel(again) == text
    _, second, third = again.entry.body.blocks
    assert second.ops[0].operands[0] is third.ops[0].result
    assert third.ops[0].result.type == I32


def test_attributes_of_every_kind() -> None:
    attributes = {
        "flag": True,
        "off": False,
        "count": -3,
        "ratio": 1e-30,
        "words": ('a "b"\n', "é"),
        "nested": {"k": (1, (2,))},
        "odd key": 1,
        "type": Tensor((2, 3), Pointer(F32)),
        "constant": Constant((1, 2), Tensor((2,), I32)),
        "nothing": None,
    }
    text = print_kernel(kernel_of(Block("bb0", (), (Op("tt.return", attributes=attributes),))))
    read = parse(text).entry.body.block.ops[0].attributes
    assert read == {key: value for key, value in attributes.items() if value is not None}
    assert print_kernel(parse(text)) == text


def test_names_that_need_quotes() -> None:
    ops = (Op("odd name", (), (Value("v", F32),)), Op("tt.return"))
    text = print_kernel(Kernel((Function("f<1>", (), (), Region((Block("bb0", (), ops),))),)))
    assert '@"f<1>"' in text and '"odd name"' in text
    again = parse(text)
    assert again.entry.name == "f<1>"
    assert again.entry.body.block.ops[0].name == "odd name"


def test_a_declaration_has_no_body() -> None:
    declared = Function("g", (Value("x", F32),), (F32,), Region(()), public=False)
    text = print_kernel(Kernel((declared,)))
    assert text == 'kernel "" {\n  func private @g(%x: f32) -> (f32)\n}\n'
    assert print_kernel(parse(text)) == text
