"""The reader's first stage: TTIR text in, a list of tokens out.

One regular expression cuts the text, coarsely: a whole type (`tensor<8x!tt.ptr<f32>>`), a whole dense value, a
numbered location (`loc(#loc12)`) and a result with its count (`%5:2`) are one token each, since a token costs more
than its length. Positions are not kept: an error finds its place by cutting the text once more.
"""

from __future__ import annotations

import re

from ..errors import ParseError

END = "\0"
# Groups are repeated in atomic groups: possessive ones match less than they should before Python 3.11.5 (gh-106052).
STRING = r'"(?>(?:[^"\\]|\\.)*)"'

# `<{` opens the properties of the generic form and is no bracket of a type. Nesting beyond four levels does not occur.
_NESTED = r"[^<>]*+"
for _ in range(3):
    _NESTED = rf"(?>(?:[^<>]++|<{_NESTED}>)*)"
_BRACKETS = rf'<(?!\{{)(?>(?:[^<>"]++|{STRING}|<{_NESTED}>)*)>'

_TOKEN = re.compile(
    rf"""\s*+(?>(?://[^\n]*+\s*+)*)(
      [,=:(){{}}\[\]]
    | %[\w$.\-]++(?:[#:]\d+)?
    | loc\(\#\w+\)
    | (?:tensor|dense|array|vector|![a-z][\w.]*|\#[a-z][\w.]*)?{_BRACKETS}
    | [A-Za-z_][\w.$]*+
    | ->
    | 0x[0-9A-Fa-f]++
    | -?\d++(?:\.\d*+(?:[eE][+-]?\d++)?)?
    | {STRING}
    | \^[\w$.\-]++
    | @(?:[\w$.\-]++|{STRING})
    | [#!][\w.]++
    | \S
    )""",
    re.VERBOSE,
)

# A line that holds one op and nothing else: names, words, attributes without strings, types without parentheses, and a
# numbered location. So does an op of the generic form with one region of such lines.
_END = r'(?>(?:[^\n"(^{}]++|\{[^\n"({}]*+\})*)(?>(?:\(\#\w+\))?)'
_LINE = re.compile(
    rf"""\n\ *+(
      (?>(?:%[\w$.\-]++\ =\ )?)(?:
        [a-z_]\w*+\.[\w.]++\ {_END}
      | "[\w.]++"\([%\w$.\-\#,\ ]*+\)\ <\{{[^\n{{}}"]*+\}}>\ \(\{{\n[^{{}}"]*+\}}\)\ :\ \([^\n"(){{}}]*+\)\ ->{_END}
      )
    )(?=\n)""",
    re.VERBOSE,
)
_ALIAS = re.compile(r"\n(#[^\n]*?) = ([^\n]*)")
_ESCAPE = re.compile(rb'\\([0-9A-Fa-f]{2}|[\\"nt])')
_SHORT = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def tokenise(text: str) -> list[str]:
    """The tokens of the text, without white space and comments, and `END` twice, so that looking one ahead is safe."""
    tokens: list[str] = _TOKEN.findall(text)
    tokens += (END, END)
    return tokens


def cut(text: str) -> list[str]:
    """The tokens of the text, but whole lines where they hold one op: they alone have a space and begin with no quote."""
    tokens: list[str] = []
    find = _TOKEN.findall
    *pairs, last = _LINE.split(text)
    for between, line in zip(pairs[::2], pairs[1::2], strict=True):
        if between:
            tokens += find(f"{between}\n{END}")  # so that a comment does not end the text
            tokens.pop()
        tokens.append(line)
    tokens += find(last)
    tokens += (END, END)
    return tokens


def split_aliases(text: str) -> tuple[str, dict[str, str]]:
    """The text with its `#name = ...` lines emptied (line numbers stay), and what they define."""
    text = f"\n{text}"
    return _ALIAS.sub("\n", text)[1:], dict(_ALIAS.findall(text))


def unquote(token: str) -> str:
    """The value of a string token: MLIR escapes bytes as two hexadecimal digits."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    raw = _ESCAPE.sub(lambda m: _SHORT.get(m[1]) or bytes([int(m[1], 16)]), body.encode())
    return raw.decode(errors="replace")


def fault(text: str, index: int, message: str) -> ParseError:
    """The error for the token of that number: the message, the line and a caret under the token."""
    start = len(text)
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == index:
            start = match.start(1)
            break
    before = text.rfind("\n", 0, start) + 1
    after = text.find("\n", start)
    line = text[before : after if after >= 0 else len(text)]
    number = text.count("\n", 0, start) + 1
    column = start - before
    caret = " " * column + "^"
    return ParseError(f"TTIR line {number}, column {column + 1}: {message}\n  {line}\n  {caret}")


def rest_of_line(text: str, index: int) -> str:
    """What stands on the line of the token of that number, from the token on."""
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == index:
            end = text.find("\n", match.start(1))
            return text[match.start(1) : end if end >= 0 else len(text)]
    return ""
