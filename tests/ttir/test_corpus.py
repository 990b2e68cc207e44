"""Every text of the corpus reads, verifies, and survives printing and reading again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from reading import CORPUS, FILES

from omnikernel.errors import UnsupportedOp
from omnikernel.ir.ops import SCHEMA
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Kernel, walk
from omnikernel.ir.verify import verify
from omnikernel.ttir import parse

IDS = [f"{file.parent.name}/{file.stem}" for file in FILES]
VERSIONS = {"3.6.0", "3.7.1", "3.8.0", "3.9.0"}


def names(kernel: Kernel) -> list[str]:
    return [op.name for function in kernel.functions for op in walk(function.body)]


def test_the_corpus_holds_every_release() -> None:
    assert {file.parent.name for file in FILES} == VERSIONS
    assert all(len(list((CORPUS / version).glob("*.ttir"))) >= 30 for version in VERSIONS)


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_print_reads_back_the_same(file: Path) -> None:
    kernel = parse(file.read_text(), file.parent.name)
    for locations in (False, True):
        text = print_kernel(kernel, locations)
        again = parse(text)
        assert print_kernel(again, locations) == text
        assert names(again) == names(kernel)
        assert again.version == kernel.version


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_locations_change_nothing_else(file: Path) -> None:
    text = file.read_text()
    bare = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    bare = re.sub(r' loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\([^()]*\))*\))*\)', "", bare)
    assert "loc(" not in bare
    assert print_kernel(parse(bare, file.parent.name)) == print_kernel(parse(text, file.parent.name))


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_op_of_the_text_is_read(file: Path) -> None:
    """Counted by another means: the op names that start a line or follow `=`."""
    text = file.read_text()
    stated = re.findall(
        r'^ *(?:%[\w.:$, %-]+ = )?"?((?:tt|arith|math|scf|cf|ub|ttg|gpu|llvm\.intr)\.[\w.]+)', text, re.MULTILINE
    )
    stated = [name for name in stated if name != "tt.func"]
    found = names(parse(text))
    implied = len(found) - len(stated)
    assert implied >= 0
    assert sorted(found) == sorted([*stated, *["scf.yield"] * implied])


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_verifies(file: Path) -> None:
    kernel = parse(file.read_text(), file.parent.name)
    unknown = [name for name in names(kernel) if name not in SCHEMA]
    if not unknown:
        verify(kernel)
        return
    with pytest.raises(UnsupportedOp, match=rf"^op {unknown[0]} \(Triton {file.parent.name}\) is not supported[:\n]"):
        verify(kernel)


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_op_has_a_place(file: Path) -> None:
    """Locations resolve to the user's file, and never to Triton's own library."""
    kernel = parse(file.read_text(), file.parent.name)
    placed = [op.loc for function in kernel.functions for op in walk(function.body) if op.loc.file]
    assert placed
    assert {loc.file for loc in placed} == {"/kernels/kernels.py"}
    assert all(loc.line > 0 for loc in placed)


def test_the_corpus_is_what_the_installed_triton_prints() -> None:
    triton = pytest.importorskip("triton")
    folder = CORPUS / triton.__version__
    if not folder.is_dir():
        pytest.skip(f"no corpus of Triton {triton.__version__}")
    sys.path.insert(0, str(CORPUS.parents[1] / "tools"))
    try:
        import make_corpus
    finally:
        del sys.path[0]
    for name in ("softmax", "loops", "debugging"):
        if (folder / f"{name}.ttir").exists():
            case = make_corpus.kernels().CASES[name]
            module = make_corpus.make_ttir(case.kernel, case.signature, case.constants, case.target)
            assert make_corpus.portable(module.str()) == (folder / f"{name}.ttir").read_text(), name
