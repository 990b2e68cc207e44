"""Ops read by whole lines are those read by tokens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reading import FILES

import omnikernel
from omnikernel.errors import ParseError
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Kernel, walk
from omnikernel.ttir import parse
from omnikernel.ttir.lexer import cut, split_aliases
from omnikernel.ttir.parse import ModuleReader


def by_lines(text: str) -> Kernel:
    return ModuleReader(text, "", whole_lines=True).module()


def by_tokens(text: str) -> Kernel:
    return ModuleReader(text, "", whole_lines=False).module()


def told(kernel: Kernel) -> list[tuple[object, ...]]:
    """All that is said of ops, in order."""
    return [
        (op.name, [(v.name, v.type) for v in (*op.operands, *op.results)], dict(op.attributes), op.loc, len(op.regions))
        for function in kernel.functions
        for op in walk(function.body)
    ]


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES])
def test_whole_lines_say_the_same(file: Path) -> None:
    text = file.read_text()
    kernel = by_lines(text)
    assert told(kernel) == told(by_tokens(text))
    assert print_kernel(kernel, locations=True) == print_kernel(by_tokens(text), locations=True)


def test_most_of_a_text_is_whole_lines() -> None:
    text = "".join(file.read_text() for file in FILES if file.parent.name == "3.7.1")
    whole = [token for token in cut(text) if " " in token and token[0] != '"']
    assert len(whole) > 0.75 * text.count("\n    ")


def module(*lines: str) -> str:
    body = "\n    ".join(lines)
    return (
        f"module {{\n  tt.func public @k(%p: !tt.ptr<f32>, %n: i32, %m: i1) {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("%a = arith.constant 1 : i32", "%b = arith.constant 1 : i64", "%c = arith.constant 1.0 : f32"),
        ("%a = arith.cmpi slt, %n, %n : i32", "%b = arith.cmpi slt, %a, %a : i1", "%c = arith.cmpi ult, %n, %n : i32"),
        ("%a = tt.splat %n : i32 -> tensor<4xi32>", "%b = tt.splat %m : i1 -> tensor<4xi1>"),
        ("%a = tt.load %p : !tt.ptr<f32>", "%b = tt.load %p cacheModifier = ca : !tt.ptr<f32>"),
        ("tt.store %p, %c : !tt.ptr<f32>  // what a comment (says) {here", "%c = arith.constant 1.0 : f32")[::-1],
        ("%a = arith.addi %n, %n {x = 1 : i32} : i32", "%b = arith.addi %n, %n {x = 2 : i32} : i32"),
        ("%a = arith.addi %n, %n {x} : i32", "%b = arith.addi %n, %n {x} : i32", "%c = arith.addi %n, %n : i32"),
        ("scf.yield %n {x = 1 : i32}", "scf.yield %n {x = 2 : i32}", "scf.yield %n {x = 2.0 : f32}"),
        ("%a = arith.addi %n, %n {x.y = 1.0 : f32} : i32", "%b = arith.extsi %a : i32 to i64", "%c = tt.get_program_id y : i32"),
    ],
)  # fmt: skip
def test_lines_that_differ_in_what_follows(lines: tuple[str, ...]) -> None:
    text = module(*lines)
    assert told(by_lines(text)) == told(by_tokens(text))


def reduction(name: str, other: str) -> str:
    return (
        f'%{name} = "tt.reduce"(%t) <{{axis = 0 : i32}}> ({{\n    ^bb0(%a: i32, %b: i32):\n'
        f"      %c = arith.addi %a, {other} : i32\n      tt.reduce.return %c : i32\n    }}) : (tensor<4xi32>) -> i32"
    )


@pytest.mark.parametrize("other", ["%b", "%n"])
def test_regions_of_one_text_have_their_own_values(other: str) -> None:
    text = module(
        "%t = tt.splat %n : i32 -> tensor<4xi32>", reduction("r", other), reduction("s", other), reduction("u", other)
    )
    kernel = by_lines(text)
    assert told(kernel) == told(by_tokens(text))
    inner = [op for op in walk(kernel.entry.body) if op.name == "arith.addi"]
    assert len({value for op in inner for value in (op.operands[0], op.result)}) == 6
    assert len({op.operands[1] for op in inner}) == (3 if other == "%b" else 1)


def test_what_is_wrong_in_a_line_has_its_place() -> None:
    with pytest.raises(ParseError, match=r"^TTIR line 4, column 25: %z is used but never defined"):
        parse(module("%a = arith.addi %n, %n : i32", "%b = arith.addi %n, %z : i32"))


@pytest.mark.parametrize("start", ["", "#loc = loc(unknown)\n", "#no alias\n"])
def test_aliases_are_found_on_lines_of_their_own(start: str) -> None:
    text = f'{start}module {{\n}}\n#loc1 = loc("/u/k.py":5:1)\n# = no name\n#loc2 = loc("x"(#loc1))'
    body, aliases = split_aliases(text)
    assert body.count("\n") == text.count("\n")
    assert "loc" not in body
    assert set(aliases) >= {"#loc1", "#loc2"} | ({"#loc"} if "unknown" in start else set())
    assert aliases["#loc2"] == 'loc("x"(#loc1))'


def test_no_group_is_possessive() -> None:
    """Before Python 3.11.5 such a group matches less than it should (gh-106052)."""
    package = Path(omnikernel.__file__).parent
    found = [file.name for file in package.rglob("*.py") if re.search(r"\)[*+?]\+", file.read_text())]
    assert not found
