"""The C++ source, cut into tokens: as much of the language as reading a signature needs.

In: text. Out: tokens with offset and line. Comments and white space are dropped; a preprocessor line is one token, its
continuation lines included.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_PATTERN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|//[^\n]*|[^\n])*)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\ \n]{0,16})\(.*?\)(?P=mark)")
    |(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<space>\n|[^\S\n]+|\\\n)
    |(?P<punct><<<|>>>|::|->|\.\.\.|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the source. `kind`: word, number, string, char, punct or directive; `line` counts from 1."""

    kind: str
    text: str
    offset: int
    line: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens of a source text."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = []
    for match in _PATTERN.finditer(text):
        kind = match.lastgroup or "punct"
        if kind in ("comment", "space"):
            continue
        kind = "string" if kind in ("raw", "mark") else kind
        found.append(Token(kind, match[0], match.start(), bisect_right(starts, match.start())))
    return tuple(found)


def matching(tokens: Sequence[Token], opening: int) -> int | None:
    """The index of the token that closes the bracket at index `opening`; None where the source ends before."""
    depth = 0
    for index in range(opening, len(tokens)):
        text = tokens[index].text
        if tokens[index].kind != "punct":
            continue
        if text in CLOSING:
            depth += 1
        elif text in CLOSING.values():
            depth -= 1
            if depth == 0:
                return index
    return None


def closing_angle(tokens: Sequence[Token], opening: int) -> int | None:
    """The index of the `>` that closes the `<` at index `opening`, as in a template's parameters."""
    depth = 0
    index = opening
    while index < len(tokens):
        text = tokens[index].text
        if text == "<":
            depth += 1
        elif text in (">", ">>>"):
            depth -= len(text)
            if depth <= 0:
                return index
        elif text in CLOSING:
            closed = matching(tokens, index)
            if closed is None:
                return None
            index = closed
        elif text in (";", "}", ")"):
            return None
        index += 1
    return None


def split(tokens: Sequence[Token], separator: str = ",") -> list[list[Token]]:
    """Tokens between separators that are outside brackets of every kind, angle brackets included."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "punct":
            if token.text in ("(", "[", "{", "<"):
                depth += 1
            elif token.text in (")", "]", "}", ">"):
                depth -= 1
            elif token.text == separator and depth == 0:
                parts.append([])
                continue
        parts[-1].append(token)
    return parts if len(parts) > 1 or parts[0] else []
