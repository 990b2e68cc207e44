"""The attributes that other stages read: names and values are a contract, whatever the release prints."""

from __future__ import annotations

from typing import Any

import pytest
from reading import corpus, ops_named, read, read_all

from omnikernel.ir.tile import Constant
from omnikernel.ir.types import F32, I1, I32, INDEX, Descriptor, Pointer, Tensor

P = "%p: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %x: tensor<8xf32>"
B = "%b: !tt.ptr<tensor<4x8xf32>>, %v: tensor<4x8xf32>"
TILE = Tensor((8,), F32)


@pytest.mark.parametrize(
    ("line", "args", "attributes"),
    [
        ("%0 = tt.make_range {end = 24 : i32, start = 16 : i32} : tensor<8xi32>", "", {"start": 16, "end": 24}),
        ("%0 = tt.expand_dims %x {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>", P, {"axis": 1}),
        ("%0 = tt.trans %v {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>", B, {"order": (1, 0)}),
        (
            "%0 = tt.reshape %v allow_reorder efficient_layout : tensor<4x8xf32> -> tensor<32xf32>",
            B,
            {"allow_reorder": True, "efficient_layout": True},
        ),
        (
            "%0 = tt.reshape %v : tensor<4x8xf32> -> tensor<32xf32>",
            B,
            {"allow_reorder": False, "efficient_layout": False},
        ),
        ("%0 = tt.get_program_id x : i32", "", {"axis": 0}),
        ("%0 = tt.get_program_id y : i32", "", {"axis": 1}),
        ("%0 = tt.get_num_programs z : i32", "", {"axis": 2}),
        ('%0 = "tt.get_program_id"() <{axis = 2 : i32}> : () -> i32', "", {"axis": 2}),
        (
            "%0 = tt.load %p : tensor<8x!tt.ptr<f32>>",
            P,
            {"isVolatile": False, "boundaryCheck": (), "padding": None},
        ),
        (
            "%0 = tt.load %p, %m, %x cacheModifier = ca evictionPolicy = evict_first {isVolatile = true} : tensor<8x!tt.ptr<f32>>",
            P,
            {"cache": "ca", "evict": "evict_first", "isVolatile": True, "boundaryCheck": (), "padding": None},
        ),
        (
            "%0 = tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = none, eviction_policy = evict_last>} : tensor<8x!tt.ptr<f32>>",
            P,
            {"evict": "evict_last", "isVolatile": False, "boundaryCheck": (), "padding": None},
        ),
        (
            "%0 = tt.load %b {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<4x8xf32>>",
            B,
            {"boundaryCheck": (0, 1), "padding": "nan", "isVolatile": False},
        ),
        (
            "%0 = tt.load %b {boundaryCheck = array<i32: 1>, padding = 1 : i32} : !tt.ptr<tensor<4x8xf32>>",
            B,
            {"boundaryCheck": (1,), "padding": "zero", "isVolatile": False},
        ),
        ("tt.store %p, %x : tensor<8x!tt.ptr<f32>>", P, {"boundaryCheck": ()}),
        (
            "tt.store %p, %x, %m cacheModifier = wb : tensor<8x!tt.ptr<f32>>",
            P,
            {"cache": "wb", "boundaryCheck": ()},
        ),
        (
            "tt.store %b, %v {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<4x8xf32>>",
            B,
            {"boundaryCheck": (0,)},
        ),
        (
            "%0 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x, %m : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>",
            P,
            {"kind": "fadd", "sem": "acq_rel", "scope": "gpu"},
        ),
        (
            '%0 = "tt.atomic_rmw"(%p, %x) <{atomic_rmw_op = 10 : i32, scope = 3 : i32, sem = 1 : i32}> : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>) -> tensor<8xf32>',
            P,
            {"kind": "exch", "sem": "relaxed", "scope": "sys"},
        ),
        (
            "%0 = tt.atomic_cas acquire, cta, %p, %x, %x : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>",
            P,
            {"sem": "acquire", "scope": "cta"},
        ),
        ("%0 = arith.cmpf one, %x, %x : tensor<8xf32>", P, {"predicate": "one"}),
        (
            '%0 = "arith.cmpi"(%m, %m) <{predicate = 9 : i64}> : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>',
            P,
            {"predicate": "uge"},
        ),
        ("%0 = arith.truncf %x : tensor<8xf32> to tensor<8xf16>", P, {}),
        ("%0 = arith.truncf %x toward_zero : tensor<8xf32> to tensor<8xf16>", P, {"roundingmode": "toward_zero"}),
        ("%0 = arith.addf %x, %x fastmath<contract> : tensor<8xf32>", P, {"fastmath": "contract"}),
        ("%0 = arith.addi %m, %m overflow<nsw, nuw> : tensor<8xi1>", P, {"overflow": "nsw, nuw"}),
        ("%0 = tt.fp_to_fp %x, rounding = rtz : tensor<8xf32> -> tensor<8xf8E5M2>", P, {"rounding": "rtz"}),
        ("%0 = tt.clampf %x, %x, %x, propagateNan = all : tensor<8xf32>", P, {"propagateNan": "all"}),
        (
            '%0 = tt.extern_elementwise %x, %x {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>',
            P,
            {"libname": "", "libpath": "", "pure": True, "symbol": "__nv_powf"},
        ),
        (
            '%0:2 = tt.elementwise_inline_asm "a \\22$0\\22;\\0A\\09b" {constraints = "=r,=r,r", packed_element = 1 : i32, pure = false} %x : tensor<8xf32> -> tensor<8xi32>, tensor<8xi32>',
            P,
            {"asm_string": 'a "$0";\n\tb', "constraints": "=r,=r,r", "packed_element": 1, "pure": False},
        ),
        (
            'tt.print " x: " {hex = true, isSigned = array<i32: 1, 0>} : %x, %m : tensor<8xf32>, tensor<8xi1>',
            P,
            {"prefix": " x: ", "hex": True, "isSigned": (1, 0)},
        ),
        ('tt.print "only" {hex = false, isSigned = array<i32>}', P, {"prefix": "only", "hex": False, "isSigned": ()}),
        ('tt.assert %m, "\\E2\\88\\80 i: \\\\" : tensor<8xi1>', P, {"message": "∀ i: \\"}),
        ("ttg.barrier local|global_read", "", {"addrspace": "local|global_read"}),
        (
            "tt.descriptor_reduce umax, %d[%i, %i], %v : !tt.tensordesc<4x8xf32>, tensor<4x8xf32>",
            "%d: !tt.tensordesc<4x8xf32>, %i: i32, %v: tensor<4x8xf32>",
            {"kind": "umax"},
        ),
        (
            '%0 = "x.y"() {a = [1, -2], b, c = {d = @f}, e = 1.5 : f64, g = tensor<2xf32>, "ttg.num-warps" = 4 : i32} : () -> i1',
            "",
            {"a": (1, -2), "b": True, "c": {"d": "f"}, "e": 1.5, "g": Tensor((2,), F32), "ttg.num-warps": 4},
        ),
    ],
)
def test_attributes(line: str, args: str, attributes: dict[str, Any]) -> None:
    assert dict(read(line, args).attributes) == attributes


def test_result_types_that_the_text_leaves_out() -> None:
    assert read("%0 = tt.load %p : tensor<8x!tt.ptr<f32>>", P).result.type == TILE
    assert read("%0 = tt.load %b : !tt.ptr<tensor<4x8xf32>>", B).result.type == Tensor((4, 8), F32)
    assert read("%0 = arith.cmpf oeq, %x, %x : tensor<8xf32>", P).result.type == Tensor((8,), I1)
    assert read("%0 = tt.unsplat %x : tensor<1xf32>", "%x: tensor<1xf32>").result.type == F32
    select = "%0 = arith.select %m, %x, %x : tensor<8xi1>, tensor<8xf32>"
    assert read(select, P).result.type == TILE
    extended = read("%0:2 = arith.addui_extended %i, %i : i32, i1", "%i: i32")
    assert [value.type for value in extended.results] == [I32, I1]
    halves = read("%0:2 = arith.mulsi_extended %i, %i : i32", "%i: i32")
    assert [value.type for value in halves.results] == [I32, I32]
    split = read("%a, %b = tt.split %x : tensor<8x2xf32> -> tensor<8xf32>", "%x: tensor<8x2xf32>")
    assert [(value.name, value.type) for value in split.results] == [("a", TILE), ("b", TILE)]


def test_reduce_and_scan() -> None:
    for version in ("3.6.0", "3.9.0"):
        first = ops_named(corpus(version, "reductions"), "tt.reduce")[0]
        assert dict(first.attributes) == {"axis": 1, "reverse": False}
        assert len(first.operands) == len(first.results) == 3
        assert [arg.type for arg in first.regions[0].block.args] == [F32, F32, I32] * 2
        scans = ops_named(corpus(version, "scans"), "tt.scan")
        assert [dict(op.attributes) for op in scans[:2]] == [
            {"axis": 1, "reverse": True},
            {"axis": 0, "reverse": False},
        ]


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_hints_are_alike_in_every_release(version: str) -> None:
    kernel = corpus(version, "hints")
    loads = [(op.attributes.get("cache"), op.attributes.get("evict")) for op in ops_named(kernel, "tt.load")]
    assert loads == [("ca", "evict_first"), (None, "evict_last"), ("cg", None)]
    stores = [(op.attributes.get("cache"), op.attributes.get("evict")) for op in ops_named(kernel, "tt.store")]
    assert stores == [("cs", "evict_first"), ("wb", None)]
    hinted = next(op for op in ops_named(kernel, "arith.addi") if op.attributes)
    assert hinted.attributes["tt.divisibility"] == Constant((8,), Tensor((1,), I32))


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_dot_scaled(version: str) -> None:
    both, left, packed, mixed = ops_named(corpus(version, "dot_scaled"), "tt.dot_scaled")
    assert dict(both.attributes) == {
        "lhs_elem_type": "e4m3",
        "rhs_elem_type": "e5m2",
        "fastMath": False,
        "has_lhs_scale": True,
        "has_rhs_scale": True,
        "lhs_k_pack": True,
        "rhs_k_pack": True,
    }
    a, b, c, a_scale, b_scale = (str(value.type) for value in both.operands)
    assert (a, b, c) == ("tensor<128x64xf8E4M3FN>", "tensor<64x128xf8E5M2>", "tensor<128x128xf32>")
    assert a_scale == b_scale == "tensor<128x2xi8>"
    assert (left.attributes["has_lhs_scale"], left.attributes["has_rhs_scale"]) == (True, False)
    assert [str(value.type) for value in left.operands[3:]] == ["tensor<128x2xi8>"]
    assert packed.attributes["lhs_elem_type"] == packed.attributes["rhs_elem_type"] == "e2m1"
    assert (mixed.attributes["rhs_elem_type"], mixed.attributes["fastMath"]) == ("bf16", True)


def test_dot() -> None:
    plain, carried = ops_named(corpus("3.7.1", "attention"), "tt.dot")
    assert dict(plain.attributes) == {"inputPrecision": "ieee", "maxNumImpreciseAcc": 0}
    assert dict(carried.attributes) == {"inputPrecision": "tf32x3", "maxNumImpreciseAcc": 0}
    imprecise = ops_named(corpus("3.7.1", "dot_fp8"), "tt.dot")[0]
    assert imprecise.attributes["maxNumImpreciseAcc"] == 16


def test_calls_name_their_callee() -> None:
    kernel = corpus("3.9.0", "calls")
    callees = {op.attributes["callee"] for op in ops_named(kernel, "tt.call")}
    assert callees == {f.name for f in kernel.functions if not f.public}
    assert kernel.entry.name == "calls"
    two = kernel.function(min(callees, key=len))
    assert two.arg_attributes == ({}, {})


def test_block_pointers() -> None:
    kernel = corpus("3.7.1", "block_pointers")
    made = ops_named(kernel, "tt.make_tensor_ptr")[0]
    assert dict(made.attributes) == {"order": (1, 0)}
    assert [value.type for value in made.operands[1:]] == [i for n in (64, 64, 32) for i in [_integer(n)] * 2]
    assert made.result.type == Pointer(Tensor((16, 16), F32))
    assert ops_named(kernel, "tt.advance")[0].result.type == made.result.type


def _integer(bits: int) -> Any:
    return read(f"%0 = ub.poison : i{bits}").result.type


@pytest.mark.parametrize("version", ["3.7.1", "3.8.0"])
def test_descriptors(version: str) -> None:
    kernel = corpus(version, "descriptors")
    plain, nan, rows = ops_named(kernel, "tt.make_tensor_descriptor")
    assert plain.result.type == Descriptor(Tensor((16, 16), F32))
    assert [made.attributes["padding"] for made in (plain, nan, rows)] == ["zero", "nan", "zero"]
    store = ops_named(kernel, "tt.descriptor_store")[0]
    assert [str(value.type) for value in store.operands[1:]] == ["tensor<16x16xf32>", "i32", "i32"]
    scatter = ops_named(kernel, "tt.descriptor_scatter")[0]
    assert [str(value.type) for value in scatter.operands[1:]] == ["tensor<32xi32>", "i32", "tensor<32x16xf32>"]


def test_descriptors_of_integers_keep_their_sign() -> None:
    before = "%0 = tt.make_tensor_descriptor %p, [%i], [%j] : <i32>, <tensor<8x{}i32>>"
    since = "%0 = tt.make_tensor_descriptor %p, [%i], [%j] : <i32>, <8x{}i32>"
    for sign, unsigned in (("s", False), ("u", True)):
        for form in (before, since):
            made = read(form.format(sign), "%p: !tt.ptr<i32>, %i: i32, %j: i64")
            assert made.result.type == Descriptor(Tensor((8,), I32), unsigned)


def test_control() -> None:
    args = "%n: i32, %c: i1"
    loop = read("scf.for unsigned %i = %n to %n step %n : i32 {\n }", args)
    assert dict(loop.attributes) == {"unsigned": True}
    assert [value.name for value in loop.operands] == ["n", "n", "n"]
    assert [op.name for op in loop.regions[0].block.ops] == ["scf.yield"]
    carried = read(
        "%r:2 = scf.for %i = %n to %n step %n iter_args(%a = %n, %b = %c) -> (i32, i1) : i32 {\n scf.yield %a, %b : i32, i1\n } {tt.num_stages = 3 : i32}",
        args,
    )
    assert dict(carried.attributes) == {"unsigned": False, "tt.num_stages": 3}
    assert [value.name for value in carried.operands] == ["n", "n", "n", "n", "c"]
    assert [value.name for value in carried.regions[0].block.args] == ["i", "a", "b"]
    assert [value.name for value in carried.results] == ["r#0", "r#1"]
    index = read("scf.for %i = %n to %n step %n {\n }", "%n: index")
    assert index.regions[0].block.args[0].type == INDEX
    choice = read("scf.if %c {\n }", args)
    assert choice.regions[1].blocks == ()
    switch = read(
        "%r = scf.index_switch %x -> i32\n case 2 {\n scf.yield %n : i32\n }\n default {\n scf.yield %n : i32\n }",
        args + ", %x: index",
    )
    assert (switch.attributes["cases"], len(switch.regions)) == ((2,), 2)
    run = read("%r = scf.execute_region -> i32 {\n scf.yield %n : i32\n }", args)
    assert (len(run.regions), run.result.type) == (1, I32)


def test_branches() -> None:
    kernel = corpus("3.7.1", "map_elementwise")
    (branch,) = ops_named(kernel, "cf.cond_br")
    assert [target.label for target in branch.successors] == ["bb1", "bb1"]
    assert [value.name for target in branch.successors for value in target.operands] == ["arg2", "arg3", "arg3", "arg2"]
    (mapped,) = ops_named(kernel, "tt.map_elementwise")
    assert dict(mapped.attributes) == {"pack": 1}
    assert [block.label for block in mapped.regions[0].blocks] == ["bb0", "bb1", "bb2"]


def test_switch_and_generic_branches() -> None:
    body = "cf.switch %n : i32, [\n default: ^bb1(%n : i32),\n 42: ^bb2\n ]\n ^bb1(%a: i32):\n tt.return\n ^bb2:"
    from omnikernel.ttir import parse

    blocks = parse(f"module {{\n tt.func public @k(%n: i32) {{\n {body}\n tt.return\n }}\n}}").entry.body.blocks
    switch = blocks[0].terminator
    assert switch.attributes["case_values"] == (42,)
    assert [(s.label, len(s.operands)) for s in switch.successors] == [("bb1", 1), ("bb2", 0)]
    generic = '"cf.cond_br"(%c, %n)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i32) -> ()'
    body = body.replace(body[: body.index("^bb1(%a")], generic + "\n ")
    blocks = parse(f"module {{\n tt.func public @k(%n: i32, %c: i1) {{\n {body}\n tt.return\n }}\n}}").entry.body.blocks
    branch = blocks[0].terminator
    assert [value.name for value in branch.operands] == ["c"]
    assert [(s.label, len(s.operands)) for s in branch.successors] == [("bb1", 1), ("bb2", 0)]


def test_values_keep_their_names() -> None:
    loops = corpus("3.9.0", "loops")
    loop = ops_named(loops, "scf.while")[0]
    assert [value.name for value in loop.results] == ["k#0", "k#1", "k#2"]
    host = corpus("3.9.0", "host_descriptor").entry
    assert [arg.name for arg in host.args] == ["d", "d.shape.0", "d.shape.1", "d.stride.0", "d.stride.1", "out"]


def test_an_op_without_types_does_not_eat_the_next() -> None:
    ops = read_all(
        "ttg.barrier all\n %a, %b = tt.split %x : tensor<8x2xf32> -> tensor<8xf32>\n gpu.barrier", "%x: tensor<8x2xf32>"
    )
    assert [op.name for op in ops] == ["ttg.barrier", "tt.split", "gpu.barrier", "tt.return"]
    assert [len(op.operands) for op in ops] == [0, 1, 0, 0]


def test_arguments_say_what_triton_knows_of_them() -> None:
    entry = corpus("3.7.1", "vector_add").entry
    assert [arg.name for arg in entry.args] == ["x", "y", "out", "n"]
    assert entry.arg_attributes == ({"tt.divisibility": 16},) * 3 + ({},)


def test_newer_ops_of_3_9() -> None:
    kernel = corpus("3.9.0", "newer")
    plain, timed = ops_named(kernel, "tt.atomic_poll")
    assert dict(plain.attributes) == {"sem": "acquire", "scope": "gpu"}
    assert [len(plain.operands), len(timed.operands)] == [2, 3]
    assert dict(ops_named(kernel, "tt.atomic_store")[0].attributes) == {"sem": "release", "scope": "gpu"}
