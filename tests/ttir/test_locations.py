"""Locations: the innermost frame of the user's own source, and who called it."""

from __future__ import annotations

from pathlib import Path

from reading import corpus, ops_named

import omnikernel
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import UNKNOWN, Location, Op
from omnikernel.ttir import parse

LIBRARY = "/site-packages/triton/language/standard.py"


def read(aliases: str, loc: str) -> Op:
    text = f"module {{\n  tt.func public @k() {{\n    %0 = ub.poison : i32{loc}\n    tt.return\n  }}\n}}\n{aliases}\n"
    return parse(text).entry.body.block.ops[0]


def test_a_plain_place() -> None:
    op = read('#loc1 = loc("/u/k.py":3:4)', " loc(#loc1)")
    assert op.loc == Location("/u/k.py", 3, 4)
    assert op.result.loc == op.loc
    assert str(op.loc) == "/u/k.py:3:4"


def test_names_are_kept() -> None:
    op = read('#loc1 = loc("/u/k.py":3:4)\n#loc2 = loc("x"(#loc1))', " loc(#loc2)")
    assert op.loc == Location("/u/k.py", 3, 4, "x")


def test_library_frames_give_way_to_the_caller() -> None:
    aliases = f'#loc1 = loc("{LIBRARY}":191:40)\n#loc2 = loc("/u/k.py":9:8)\n#loc3 = loc("z"(#loc2))\n#loc4 = loc(callsite(#loc1 at #loc3))'
    assert read(aliases, " loc(#loc4)").loc == Location("/u/k.py", 9, 8, "z")


def test_callers_are_the_frames_outside() -> None:
    aliases = (
        f'#loc1 = loc("{LIBRARY}":1:1)\n#loc2 = loc("/u/helper.py":2:2)\n#loc3 = loc("/u/k.py":3:3)\n'
        "#loc4 = loc(callsite(#loc1 at #loc2))\n#loc5 = loc(callsite(#loc4 at #loc3))"
    )
    loc = read(aliases, " loc(#loc5)").loc
    assert loc == Location("/u/helper.py", 2, 2, "", (Location("/u/k.py", 3, 3),))


def test_only_library_frames() -> None:
    assert read("", f' loc("{LIBRARY}":7:8)').loc == Location(LIBRARY, 7, 8)


def test_this_package_is_a_library_too() -> None:
    """A jitted function of our own libdevice is not where the user's fault is."""
    ours = str(Path(omnikernel.__file__).resolve().parent / "backend" / "libdevice.py")
    assert read("", f' loc(callsite("{ours}":1:2 at "/u/k.py":3:4))').loc == Location("/u/k.py", 3, 4)


def test_inline_and_nested_forms() -> None:
    inline = ' loc(callsite("/u/a.py":1:2 at callsite("/u/b.py":3:4 at "y"("/u/c.py":5:6))))'
    assert read("", inline).loc == Location(
        "/u/a.py", 1, 2, "", (Location("/u/b.py", 3, 4), Location("/u/c.py", 5, 6, "y"))
    )
    assert read("", ' loc(fused<"tag">["/u/a.py":1:2, "/u/b.py":3:4])').loc == Location("/u/a.py", 1, 2)
    assert read("", ' loc(fused[unknown, "/u/b.py":3:4])').loc == Location("/u/b.py", 3, 4)
    assert read("", ' loc("/u/a.py":1:2 to 3:4)').loc == Location("/u/a.py", 1, 2)
    assert read("", ' loc("/u/a.py":1:2 to :9)').loc == Location("/u/a.py", 1, 2)
    assert read("", ' loc("n(a \\22me")').loc == Location(name='n(a "me')


def test_nothing_known() -> None:
    assert read("", "").loc == UNKNOWN
    assert read("", " loc(unknown)").loc == UNKNOWN
    assert read("#loc1 = loc(unknown)", " loc(#loc1)").loc == UNKNOWN
    assert read("", " loc(#loc9)").loc == UNKNOWN
    assert read("#loc1 = loc(callsite(#loc1 at #loc1))", " loc(#loc1)").loc == UNKNOWN


def test_arguments_have_places() -> None:
    entry = corpus("3.7.1", "softmax").entry
    assert [arg.loc.name for arg in entry.args] == ["a", "out", "cols", "stride"]
    assert {arg.loc.file for arg in entry.args} == {"/kernels/kernels.py"}
    reduce = ops_named(corpus("3.7.1", "softmax"), "tt.reduce")[0]
    assert all(arg.loc.file == "/kernels/kernels.py" for arg in reduce.regions[0].block.args)
    assert reduce.loc == reduce.results[0].loc


def test_callers_survive_printing() -> None:
    aliases = '#loc1 = loc("/u/a \\22.py":1:2)\n#loc2 = loc("x"(#loc1))\n#loc3 = loc("/u/b.py":3:4)\n#loc4 = loc(callsite(#loc2 at #loc3))'
    text = f"module {{\n  tt.func public @k() {{\n    tt.return loc(#loc4)\n  }} loc(#loc3)\n}}\n{aliases}\n"
    kernel = parse(text)
    again = parse(print_kernel(kernel, locations=True))
    loc = again.entry.body.block.ops[0].loc
    assert loc == kernel.entry.body.block.ops[0].loc
    assert loc == Location('/u/a ".py', 1, 2, "x", (Location("/u/b.py", 3, 4),))
    assert again.entry.loc == Location("/u/b.py", 3, 4)
