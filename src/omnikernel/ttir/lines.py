"""Whole lines: most ops stand on a line of their own, and most lines differ from earlier ones in nothing but names.

A line is known by what it says besides the names of values, in three parts: the head (the op and its words), the
attributes in braces, and the tail (types, behind the last colon). What was said before needs neither tokens nor forms;
what is new is read by its tokens, and remembered. The location is looked up by its number. An op of the generic form
with one region, as `tt.reduce` has it, counts as a line too; regions of the same text that use nothing from outside are
copied.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.printer import DEFAULTS
from ..ir.tile import UNKNOWN, Block, Op, Region, Value
from ..ir.types import Type
from .constants import parse_type
from .forms import Form, form_of, keeps_names, normalise, results_of
from .lexer import END, cut, tokenise
from .reader import Reader

_NAMES = re.compile(r"(%[A-Za-z0-9_$.\-\x80-\U0010FFFF]++(?:#\d++)?)")  # a set of characters is faster than \w
_PLAIN = re.compile(r"(% = )?([a-z_]\w*\.[\w.]+)(?: %(?:, %)*)? ?")
_REGION = " ({\n"
_GENERIC = Form(lambda listed: listed)  # states its results

Typed = tuple[Mapping[str, Any], tuple[Type, ...]]


@dataclass(slots=True)
class _Said:
    """What lines of one head have in common: the op, how many results, and the form that tells their types.

    `first` is what stood in braces in the first such line; `braces` has all attributes by the text in braces, and `typed`
    those with the types of results by that text and the tail.
    """

    name: str
    results: int
    form: Form | None
    first: str
    braces: dict[str, Mapping[str, Any]]
    typed: dict[tuple[str, str], Typed] = field(default_factory=dict)


class LineReader(Reader, ABC):
    """Reads whole lines. What reads an op by its tokens, `op`, is the subclass's."""

    def __init__(self, text: str, version: str, whole_lines: bool) -> None:
        super().__init__(text, version)
        self.tokens = (cut if whole_lines else tokenise)(self.text)
        self._said: dict[str, _Said] = {}
        self._bodies: dict[str, Region] = {}

    @abstractmethod
    def op(self) -> Op:
        """The op that starts at the current token."""

    def line(self, line: str) -> Op:
        """The op of a whole line, which the cursor has passed."""
        at = line.rfind(" loc(")
        said_of = line if at < 0 else line[:at]
        head, colon, tail = said_of.rpartition(" : ")
        if not colon:
            head, tail = said_of, ""
        body = braces = ""
        if _REGION in head:
            head, _, body = head.partition(_REGION)
        if "{" in head:
            head, _, braces = head.partition("{")
            if "%" in braces:
                head, braces = f"{head}{{{braces}", ""
        parts = _NAMES.split(head)
        words = "%".join(parts[::2])
        names = parts[1::2]
        region = self._bodies.get(body) if body else None
        said = self._said.get(words)
        if said is None and tail:
            said = self._plain(words, braces)
        typed = None if said is None else said.typed.get((braces, tail)) or self._typed(said, braces, tail)
        if said is None or typed is None or (body and region is None):
            op = self._new(line, words, braces, tail, names)
            if body and region is None:
                self._remember(body, op.regions[0])
            return op
        attributes, types = typed
        loc = UNKNOWN if at < 0 else self._locations.numbered(line[at + 1 :])
        values = self.values
        results: tuple[Value, ...] = ()
        name = names.pop(0) if types else ""
        try:
            operands = tuple(map(values.__getitem__, names))
        except KeyError:
            operands = tuple([self.use(n) for n in names])
        if types:
            if name in values:
                value = self.define(name, types[0], loc)
            else:
                value = values[name] = Value(name[1:], types[0], loc)
                self._scope.append(name)
            results = (value,)
        return Op(said.name, operands, results, attributes, (_copied(region),) if region else (), (), loc)

    def _plain(self, words: str, braces: str) -> _Said | None:
        """What a new head says that is a name and operands; None for one with words of its own, which takes tokens."""
        plain = _PLAIN.fullmatch(words)
        form = form_of(plain[2]) if plain else None
        if plain is None or form is None or form.fix is not None or form.bare:
            return None
        attributes = self._in_braces(braces)
        if attributes is None:
            return None
        name = plain[2]
        try:
            normalise(name, attributes)
        except (ValueError, KeyError):
            return None  # read by tokens, which says what is wrong and where
        attributes = {**DEFAULTS.get(name, {}), **attributes}
        said = self._said[words] = _Said(name, 1 if plain[1] else 0, form, braces, {braces: attributes})
        return said

    def _typed(self, said: _Said, braces: str, tail: str) -> Typed | None:
        """What a new tail says behind a known head; None where it takes the whole line to tell."""
        attributes = said.braces.get(braces)
        if attributes is None:
            attributes = self._attributes(said, braces)
        if said.form is None or attributes is None:
            return None
        before, arrow, after = tail.partition(" -> ")
        if not arrow:
            before, arrow, after = tail.partition(" to ")
        listed, given = self._listed(before), self._listed(after) if arrow else None
        if listed is None or (arrow and given is None):
            return None
        try:
            types = tuple(results_of(said.name, said.form, listed, given))
        except (ValueError, TypeError, KeyError, IndexError):
            return None
        if len(types) != said.results:
            return None
        typed = said.typed[braces, tail] = attributes, types
        return typed

    def _attributes(self, said: _Said, braces: str) -> Mapping[str, Any] | None:
        """All attributes of a line whose braces say something new."""
        before, stated = self._in_braces(said.first), self._in_braces(braces)
        if before is None or stated is None or not keeps_names(said.name):
            return None
        words = {key: value for key, value in said.braces[said.first].items() if key not in before}
        made = said.braces[braces] = {**DEFAULTS.get(said.name, {}), **words, **stated}
        return made

    def _in_braces(self, braces: str) -> dict[str, Any] | None:
        """What the end of a head says, from behind its brace; None where that is more than attributes."""
        if not braces:
            return {}
        if not braces.endswith(("}", "}>")):
            return None
        kept = self.tokens, self.at
        self.tokens, self.at = tokenise("{" + braces), 0
        stated = self.attributes()
        self.accept(">")
        whole = self.tokens[self.at] == END
        self.tokens, self.at = kept
        return stated if whole else None

    def _listed(self, text: str) -> list[Type] | None:
        """The types of a list with commas, perhaps in parentheses; None for other text."""
        if text[:1] == "(" and text[-1:] == ")":
            text = text[1:-1]
        if "," not in text:
            one = parse_type(text)
            return None if one is None else [one]
        listed = []
        for word in text.split(", "):
            found = parse_type(word)
            if found is None:
                return None
            listed.append(found)
        return listed

    def _new(self, line: str, words: str, braces: str, tail: str, names: list[str]) -> Op:
        """A line that says something new is read by its tokens; remembered where operands stand in the op's own order."""
        kept = self.tokens, self.at
        self.tokens, self.at = tokenise(line), 0
        op = self.op()
        if self.tokens[self.at] != END:
            self.fail("expected the end of the line")
        self.tokens, self.at = kept
        taken = [self.values[name] for name in names[len(op.results) :]]
        if not op.successors and len(op.results) < 2 and taken == list(op.operands):
            said = self._said.get(words)
            if said is None:
                form = _GENERIC if op.regions else form_of(op.name)
                said = self._said[words] = _Said(op.name, len(op.results), form, braces, {braces: op.attributes})
            said.typed[braces, tail] = op.attributes, tuple([v.type for v in op.results])
        return op

    def _remember(self, body: str, region: Region) -> None:
        """Keep a region of plain ops that uses nothing from outside."""
        if len(region.blocks) != 1:
            return
        block = region.block
        seen = set(block.args)
        for op in block.ops:
            if op.regions or op.successors or not seen.issuperset(op.operands):
                return
            seen.update(op.results)
        self._bodies[body] = region


def _copied(region: Region) -> Region:
    """The region once more, with values and ops of its own."""
    block = region.block
    own = {v: Value(v.name, v.type, v.loc) for v in block.args}
    args = tuple(own.values())
    ops = []
    for op in block.ops:
        operands = tuple([own[v] for v in op.operands])
        results = tuple([Value(v.name, v.type, v.loc) for v in op.results])
        own.update(zip(op.results, results, strict=True))
        ops.append(Op(op.name, operands, results, op.attributes, (), (), op.loc))
    return Region((Block(block.label, args, tuple(ops)),), region)
