"""Locations: `loc(...)` text in, `ir.tile.Location` out.

TTIR gives a chain of frames: a call site wraps the place inside the called function. What a user wants to read is the
innermost frame of their own source, not a line of Triton's standard library, so that one is the location, and the
frames outside it are its `callers`.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from ..errors import ParseError
from ..ir.tile import UNKNOWN, Location
from .lexer import END, tokenise, unquote

_LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|python)[/\\]triton[/\\]|[/\\]triton[/\\]language[/\\]"
)
_USUAL = re.compile(
    r'loc\((?:"([^"\\]*)"(?::(\d+):(\d+)|\((#\w+)\))|callsite\((#\w+) at (#\w+)\))\)'  # a place, a name, a call
)
_OURS = str(Path(__file__).resolve().parents[1]) + os.sep

Frames = tuple[Location, ...]  # innermost first, without callers


@cache
def is_library(file: str) -> bool:
    """Whether a source file belongs to Triton's or to this package's own library of jitted functions."""
    return _LIBRARY.search(file) is not None or file.startswith(_OURS)


class Locations:
    """Resolves the locations of one module; aliases are read when first asked for."""

    def __init__(self, aliases: dict[str, str]) -> None:
        self._aliases = aliases
        self._frames: dict[str, Frames] = {}
        self._resolved: dict[str, Location] = {}

    def numbered(self, token: str) -> Location:
        """The location of a token `loc(#loc12)`."""
        found = self._resolved.get(token)
        if found is None:
            found = self._resolved[token] = innermost(self._alias(token[4:-1]))
        return found

    def parse(self, tokens: list[str], at: int) -> tuple[Location, int]:
        """The location whose `(` is at that index, and the index after its `)`. Raises ValueError on a fault."""
        frames, at = self._node(tokens, at + 1)
        if tokens[at] != ")":
            raise ValueError("expected ) after a location")
        return innermost(frames), at + 1

    def on_line(self, line: str) -> Location:
        """The last location that a line of TTIR states, or UNKNOWN."""
        start = line.rfind(" loc(")
        if start < 0:
            return UNKNOWN
        tokens = tokenise(line[start:])
        if tokens[0] != "loc":
            return self.numbered(tokens[0])
        try:
            return self.parse(tokens, 1)[0]
        except (ValueError, IndexError):
            return UNKNOWN

    def _alias(self, name: str) -> Frames:
        """The frames of `#loc12`. The three usual spellings are read by one match each; they are most of all text."""
        found = self._frames.get(name)
        if found is not None:
            return found
        self._frames[name] = ()  # an alias that names itself has no frames
        text = self._aliases.get(name, "loc(unknown)")
        usual = _USUAL.fullmatch(text)
        if usual is None:
            found = self._unusual(name, tokenise(text))
        elif usual[2]:
            found = (Location(usual[1], int(usual[2]), int(usual[3])),)
        elif usual[4]:
            found = _renamed(self._alias(usual[4]), usual[1])
        else:
            found = self._alias(usual[5]) + self._alias(usual[6])
        self._frames[name] = found
        return found

    def _unusual(self, name: str, tokens: list[str]) -> Frames:
        if tokens[0].startswith("loc("):
            return self._alias(tokens[0][4:-1])
        try:
            return self._node(tokens, 2)[0]
        except (ValueError, IndexError) as error:
            raise ParseError(f"TTIR location {name} = {self._aliases[name]} does not read: {error}") from error

    def _node(self, tokens: list[str], at: int) -> tuple[Frames, int]:
        token = tokens[at]
        if token[0] == "#":
            return self._alias(token), at + 1
        if token == "unknown":
            return (), at + 1
        if token[0] == '"':
            return self._named(tokens, at)
        if token == "callsite":
            callee, at = self._node(tokens, at + 2)
            caller, at = self._node(tokens, at + 1)  # past `at`
            return callee + caller, at + 1
        if token == "fused":
            at += 2 if tokens[at + 1][0] == "<" else 1
            frames: Frames = ()
            while tokens[at] in ("[", ","):
                one, at = self._node(tokens, at + 1)
                frames = frames or one
            return frames, at + 1
        raise ValueError("expected a location" if token != END else "the text ends inside a location")

    def _named(self, tokens: list[str], at: int) -> tuple[Frames, int]:
        """`"file":line:column`, with an optional range end, or `"name"(location)`, or `"name"`."""
        text = unquote(tokens[at])
        if tokens[at + 1] == "(":
            frames, at = self._node(tokens, at + 2)
            return _renamed(frames, text), at + 1
        if tokens[at + 1] != ":":
            return (Location(name=text),), at + 1
        frame = Location(text, int(tokens[at + 2]), int(tokens[at + 4]))
        at += 5
        if tokens[at] == "to":
            at += 1
            while tokens[at] == ":" or tokens[at].isdigit():
                at += 1
        return (frame,), at


def _renamed(frames: Frames, name: str) -> Frames:
    """The frames with the innermost one named as the user's variable."""
    if not frames:
        return (Location(name=name),)
    first = frames[0]
    return (Location(first.file, first.line, first.column, name), *frames[1:])


def innermost(frames: Frames) -> Location:
    """The innermost frame of the user's own source, with the frames that called it. UNKNOWN where there are none."""
    if not frames:
        return UNKNOWN
    chosen = -1
    for number, frame in enumerate(frames):
        if frame.file:
            if not is_library(frame.file):
                chosen = number
                break
            if chosen < 0:
                chosen = number
    if chosen < 0:
        return frames[0]
    frame, callers = frames[chosen], frames[chosen + 1 :]
    return Location(frame.file, frame.line, frame.column, frame.name, callers) if callers else frame
