"""What the tests of the reader share: the corpus, and kernels around a few lines of TTIR."""

from __future__ import annotations

from pathlib import Path

from omnikernel.ir.tile import Kernel, Op, walk
from omnikernel.ttir import parse

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
FILES = sorted(CORPUS.glob("*/*.ttir"))


def ops_named(kernel: Kernel, name: str) -> list[Op]:
    """Every op of that name, of every function, in order."""
    return [op for function in kernel.functions for op in walk(function.body) if op.name == name]


def corpus(version: str, name: str) -> Kernel:
    """A kernel of the corpus."""
    return parse((CORPUS / version / f"{name}.ttir").read_text(), version)


def read(line: str, args: str = "") -> Op:
    """Reads one op of TTIR inside a function that takes `args`, and gives that op."""
    return read_all(line, args)[0]


def read_all(lines: str, args: str = "") -> tuple[Op, ...]:
    """The ops of a function of one block."""
    text = f"module {{\n  tt.func public @k({args}) {{\n    {lines}\n    tt.return\n  }}\n}}\n"
    return parse(text, "3.7.1").entry.body.block.ops
