"""The layers of the package: imports point down only, and the lowest depend on nothing of ours."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnikernel

ROOT = Path(omnikernel.__file__).parent

# The parts from the bottom up; a part imports those of lower rows, and of its own row.
ROWS = (
    ("errors", "config", "elf", "processors", "relocatable"),
    ("ir",),
    ("ttir",),
    ("lower", "passes", "llvm"),
    ("artefact", "runtime", "pipeline"),
    (
        "cli",
        "commands",
        "cpp",
        "ship",
        "info",
        "frontend",
        "ops",
        "inductor",
        "check",
        "verify",
        "backend",
        "jax",
        "torch",
        "numpy",
        "cupy",
        "docs",
        "worth",
    ),
)
HEIGHT = {part: height for height, row in enumerate(ROWS) for part in row} | {"reference": 1}
EXTRA = {"runtime": {"reference"}}  # a launch can run by the reference


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def imported(name: str, path: Path) -> Iterator[tuple[str, int]]:
    """Parts of the package that a module imports, anywhere in its text, with the line."""
    package = name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("omnikernel."):
                    yield alias.name.split(".")[1], node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((part, node.lineno) for part in _from(node, package))


def _from(node: ast.ImportFrom, package: list[str]) -> Iterator[str]:
    if node.level:
        whole = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == "omnikernel":
        whole = (node.module or "").split(".")[1:]
    else:
        return
    whole = [part for part in whole if part]
    if whole:
        yield whole[0]
    else:
        yield from (alias.name for alias in node.names)


def faults(name: str, path: Path) -> list[str]:
    part = name.split(".", maxsplit=1)[0]
    if part not in HEIGHT:  # the package itself, which imports lazily
        return []
    return [
        f"{name}, line {line}: {part} may not import {other}"
        for other, line in imported(name, path)
        if other in HEIGHT and not may_import(part, other)
    ]


def may_import(part: str, other: str) -> bool:
    if part == other or HEIGHT[other] == 0:
        return True
    if part == "reference":
        return other == "ir"
    if other == "reference":
        return HEIGHT[part] == len(ROWS) - 1 or "reference" in EXTRA.get(part, ())
    return HEIGHT[other] <= HEIGHT[part]


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=[name for name, _ in modules()])
def test_imports_point_down(name: str, path: Path) -> None:
    assert not faults(name, path)


def test_every_part_has_its_place() -> None:
    parts = {name.split(".")[0] for name, _ in modules()} - {"__init__", "__main__"}
    assert parts <= HEIGHT.keys(), "a new part of the package needs a place in ROWS"


def test_no_module_is_named_utils() -> None:
    assert not [name for name, _ in modules() if name.split(".")[-1] in ("utils", "util", "helpers", "misc")]


def test_the_rule() -> None:
    assert may_import("ttir", "ir") and not may_import("ir", "ttir")
    assert may_import("lower", "llvm") and not may_import("lower", "pipeline")
    assert may_import("reference", "ir") and not may_import("reference", "ttir")
    assert may_import("backend", "reference") and not may_import("passes", "reference")
    assert may_import("ir", "errors") and not may_import("errors", "ir")


def test_the_rule_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "from ..lower.lanes import Lanes\nimport omnikernel.runtime.pool\nfrom . import tile\nfrom omnikernel import backend\n"
    )
    assert list(imported("ir.bad", bad)) == [("lower", 1), ("runtime", 2), ("ir", 3), ("backend", 4)]
    assert len(faults("ir.bad", bad)) == 3
