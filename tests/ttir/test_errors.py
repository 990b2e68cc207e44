"""What the reader says of text that it cannot read."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import CORPUS

from omnikernel.errors import ParseError, UnsupportedOp, VerifyError
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.verify import verify
from omnikernel.ttir import parse

WHOLE = "module {{\n  tt.func public @k(%p: !tt.ptr<f32>, %n: i32) {{\n    {}\n    tt.return\n  }}\n}}\n"


def test_an_unknown_custom_form() -> None:
    text = WHOLE.format('%0 = tt.foo %n <weird> : i32 loc("x"("/u/k.py":12:8))')
    with pytest.raises(UnsupportedOp) as caught:
        parse(text, "3.9.0")
    assert str(caught.value) == "op tt.foo (Triton 3.9.0) is not supported\n  in kernel k, at /u/k.py:12:8"


def test_an_unknown_custom_form_with_an_alias() -> None:
    text = WHOLE.format("tt.foo %n : i32 loc(#loc2)") + '#loc1 = loc("/u/k.py":5:1)\n#loc2 = loc("x"(#loc1))\n'
    with pytest.raises(UnsupportedOp, match=r"^op tt.foo is not supported\n  in kernel k, at /u/k.py:5:1$"):
        parse(text)


def test_an_unknown_custom_form_without_a_place() -> None:
    with pytest.raises(UnsupportedOp) as caught:
        parse(WHOLE.format("tt.foo %n : i32"), "3.7.1")
    assert str(caught.value) == "op tt.foo (Triton 3.7.1) is not supported\n  in kernel k"


def test_an_unknown_generic_op_reads_and_the_verifier_reports_it() -> None:
    text = WHOLE.format(
        '%0:2 = "x.y"(%n) ({\n ^bb0(%a: f32):\n "x.z"() : () -> ()\n }) {k = 1 : i32} : (i32) -> (i32, f32) loc("/u/k.py":7:2)'
    )
    kernel = parse(text, "3.8.0")
    op = kernel.entry.body.block.ops[0]
    assert (op.name, len(op.results), op.attributes) == ("x.y", 2, {"k": 1})
    assert op.regions[0].block.ops[0].name == "x.z"
    with pytest.raises(UnsupportedOp) as caught:
        verify(kernel)
    assert str(caught.value) == "op x.y (Triton 3.8.0) is not supported\n  in kernel k, at /u/k.py:7:2"


def test_an_unknown_type() -> None:
    with pytest.raises(
        UnsupportedOp, match=r"^type tensor<8xi128> \(Triton 3.9.0\) is not supported\n  in kernel k, at /u/k.py:1:2$"
    ):
        parse(WHOLE.format('%0 = ub.poison : tensor<8xi128> loc("/u/k.py":1:2)'), "3.9.0")
    with pytest.raises(UnsupportedOp, match=r"^type tensor<8xf32, #blocked>"):
        parse(WHOLE.format("%0 = ub.poison : tensor<8xf32, #blocked>"))


@pytest.mark.parametrize(
    ("line", "message", "caret"),
    [
        ("%0 = arith.addi %n, %n", "arith.addi does not read|results are named", "%0"),
        ("%0 tt.splat %n : i32 -> tensor<8xi32>", "expected =", "tt.splat"),
        ("%0 = arith.addi %n, %gone : i32", "%gone is used but never defined", "%gone"),
        ("%n = arith.addi %n, %n : i32", "%n is defined twice", None),
        ("%0:3 = arith.addui_extended %n, %n : i32, i1", "3 results are named, but 2 types are given", "%0:3"),
        ("%0 = arith.constant 300 : i8", "300 does not fit i8", "300"),
        ("%0 = arith.constant dense<[1, 2]> : tensor<3xi8>", "2 elements for tensor<3xi8>", "dense"),
        ("%0 = arith.constant dense<what> : tensor<3xi8>", "dense<what> holds what", "dense"),
        ('%0 = arith.constant dense<"0x0102"> : tensor<3xi8>', "a blob of 2 bytes for 3 elements of i8", "dense"),
        ("%0 = arith.cmpi slt sgt, %n, %n : i32", "unexpected word sgt", "%0"),
        ("%0 = tt.load %n : i32", "i32 is no pointer", "%0"),
        ('%0 = "arith.cmpi"(%n, %n) <{predicate = 77 : i64}> : (i32, i32) -> i1', "predicate = 77 of arith.cmpi", "%0"),
        ('%0 = "arith.addi"(%n, %n) : (i32) -> i32', "2 operands, but 1 types", "%0"),
        ('%0 = "arith.addi"(%n, %n) : (i32, i32)', "expected ->", "%0"),
        ("scf.for %i = %n to %n iter %n {\n}", "expected step", "iter"),
        ("scf.if %n -> nonsense {\n}", "type nonsense", None),
        ("~", "expected an op", "~"),
        ("%0 = ub.poison : i32 loc(nonsense)", "expected a location", "loc"),
    ],
)
def test_faults_point_at_the_place(line: str, message: str, caret: str | None) -> None:
    with pytest.raises((ParseError, UnsupportedOp), match=message) as caught:
        parse(WHOLE.format(line))
    if caret is not None:
        head, source, mark = str(caught.value).splitlines()
        assert head.startswith("TTIR line 3, column ")
        assert source[mark.index("^") :].startswith(caret)


def test_a_fault_in_full() -> None:
    with pytest.raises(ParseError) as caught:
        parse(WHOLE.format("%0 = arith.constant 1 i32"))
    assert str(caught.value) == "\n".join(
        ("TTIR line 3, column 27: expected :", "      %0 = arith.constant 1 i32", "                            ^")
    )


@pytest.mark.parametrize(
    "text", ["", "func", "module {", "module {\n  tt.func public @k() {\n", "module {\n}\nextra", 'kernel "3.7.1" {']
)
def test_text_that_is_cut(text: str) -> None:
    with pytest.raises(ParseError, match=r"^TTIR line \d+, column \d+: "):
        parse(text)


def test_a_location_that_does_not_read() -> None:
    text = WHOLE.format("%0 = ub.poison : i32 loc(#loc1)") + '#loc1 = loc("/u/k.py":what)\n'
    with pytest.raises(ParseError, match=r'^TTIR location #loc1 = loc\("/u/k.py":what\) does not read: '):
        parse(text)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damaged_text_gives_a_clear_error_or_a_kernel(data: st.DataObject) -> None:
    """Tokens lost or put elsewhere: no other exception, and what reads also prints and reads back."""
    files = sorted((CORPUS / "3.7.1").glob("*.ttir"), key=lambda file: file.stat().st_size)[:8]
    text = data.draw(st.sampled_from(files)).read_text()
    words = re.findall(r"[\w.#%^]+|\S", text)
    for _ in range(data.draw(st.integers(1, 3))):
        gone = data.draw(st.sampled_from(words))
        put = data.draw(st.sampled_from(["", gone + " " + gone, data.draw(st.sampled_from(words))]))
        at = [match.start() for match in re.finditer(re.escape(gone), text)]
        if at:
            where = data.draw(st.sampled_from(at))
            text = text[:where] + put + text[where + len(gone) :]
    try:
        kernel = parse(text, "3.7.1")
    except (ParseError, UnsupportedOp):
        return
    printed = print_kernel(kernel, locations=True)
    assert print_kernel(parse(printed), locations=True) == printed
    with contextlib.suppress(VerifyError, UnsupportedOp):
        verify(kernel)


def test_every_prefix_of_a_text_gives_a_clear_error_or_a_kernel() -> None:
    text = (CORPUS / "3.7.1" / "early_return.ttir").read_text()
    body = text.index("\n}")
    for end in range(0, body, 37):
        with pytest.raises((ParseError, UnsupportedOp)):
            parse(text[:end])
