"""A module of LLVM IR text as several, for code generation on several threads.

Functions that are called only within their module (`define internal`) may go elsewhere; they are hidden symbols then, so
that calls are as direct as before. How a text is divided depends on the text alone: the object code is the same on every
machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .outline import LARGE

_NAMED = re.compile(r"@([A-Za-z0-9_.$]+)")
_INTERNAL = "define internal "


def divided(text: str) -> list[str]:
    """The text of two modules that do the same work together, or the text itself."""
    if len(text) < LARGE:
        return [text]
    functions, rest = _functions(text)
    shared = [line for line in rest if line.startswith("@") and " = private unnamed_addr constant " not in line]
    if shared or not any(f.startswith(_INTERNAL) for f in functions):
        return [text]
    parts = _balanced(functions)
    return ["\n".join([*_module(rest, part, functions), ""]) for part in parts]


def _functions(text: str) -> tuple[list[str], list[str]]:
    """The texts of the functions, and the lines outside of them. An expression would take milliseconds to find them."""
    *parts, last = f"\n{text}".split("\n}\n")
    functions, rest = [], []
    for part in parts:
        before, head, body = part.rpartition("\ndefine ")
        functions.append(f"{head[1:]}{body}\n}}\n")
        rest += before.splitlines()
    return functions, [line for line in (*rest, *last.splitlines()) if line]


def _balanced(functions: Sequence[str]) -> list[list[str]]:
    """Two lists of about as many lines, which tell best how long LLVM takes; the first has all that others may call."""
    first = [f for f in functions if not f.startswith(_INTERNAL)]
    second: list[str] = []
    for function in sorted((f for f in functions if f.startswith(_INTERNAL)), key=_lines, reverse=True):
        (second if sum(map(_lines, second)) <= sum(map(_lines, first)) else first).append(function)
    return [first, second]


def _lines(function: str) -> int:
    return function.count("\n")


def _module(rest: Sequence[str], part: Sequence[str], functions: Sequence[str]) -> Iterator[str]:
    """The lines of the module that defines a part of all functions."""
    bodies = "".join(part)
    named = set(_NAMED.findall(bodies))
    for line in rest:
        if not line.startswith("@") or _name(line) in named:
            yield line
    for function in functions:
        if function not in part and _name(function) in named:
            head, _, _ = function.partition("\n")
            yield f"declare hidden {head.removeprefix(_INTERNAL).removesuffix('{')}"
    yield bodies.replace(_INTERNAL, "define hidden ")


def _name(text: str) -> str:
    found = _NAMED.search(text)
    assert found
    return found[1]
