"""How the tests lie: each file of tests is loaded once, under one name."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_file_of_tests_is_imported_by_another():
    """What it declares would be declared twice, under pytest's name for it and its own; helpers have files of their own."""
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}: {name}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.startswith("test_")
    ]
    assert not found
