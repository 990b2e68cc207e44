"""TTIR text -> tile IR: functions, regions, blocks and ops.

In: the text of `module.str()` or `module.str_nodebug()` of Triton 3.6 to 3.9, or of `ir.printer.print_kernel`. Out: a
`Kernel`, its attributes under one set of names whatever the release. The reader is tolerant: it knows the shape of
text, `forms.py` knows the ops, and it checks no more than it must; `ir.verify` checks the result.
"""

from __future__ import annotations

from typing import Any

from ..errors import ParseError, UnsupportedOp
from ..ir.ops import SCHEMA
from ..ir.tile import Block, Function, Kernel, Op, Region, Successor, Value
from ..ir.types import Type
from .forms import Form, Head, check_words, form_of, normalise, results_of, symbol
from .lexer import END, unquote
from .lines import LineReader
from .structured import SPECIAL

_BETWEEN_TYPES = frozenset(",()*")
_ENTRY = "bb0"


def parse(text: str, version: str = "") -> Kernel:
    """Reads TTIR.

    Args:
        text: the text of a whole module, with or without locations.
        version: the Triton release that printed it, for messages; what `print_kernel` printed states its own.

    Returns:
        The kernel. Value names are those printed, without `%`; the results of `%a:2` are named `a#0` and `a#1`. The
        entry block has the label `bb0` where the text gives none.

    Raises:
        ParseError: where the text is not well formed, with the line and a caret.
        UnsupportedOp: for a custom form of an op or a type that the reader does not know.
    """
    try:
        return ModuleReader(text, version, whole_lines=True).module()
    except (ParseError, UnsupportedOp):
        return ModuleReader(text, version, whole_lines=False).module()  # token by token, to say where it is wrong


class ModuleReader(LineReader):
    """Reads a module; `_tile` says that the text is the printer's own form, which has the types at the definitions."""

    _tile = False

    def module(self) -> Kernel:
        if self.accept("kernel"):
            self._tile = True
            version = unquote(self.take())
            self.version = self.version or version
        elif self.accept("module"):
            if self.tokens[self.at][0] == "@":
                self.at += 1
            if self.accept("attributes"):
                self.attributes()
        else:
            self.fail("expected module")
        self.expect("{")
        functions = []
        while not self.accept("}"):
            functions.append(self._function())
        self.location()
        if self.tokens[self.at] != END:
            self.fail("expected the end of the text")
        return Kernel(tuple(functions), self.version)

    def _function(self) -> Function:
        start = self.at
        word = self.take()
        if word not in ("tt.func", "func"):
            self.fail("expected tt.func", start)
        public = self.tokens[self.at] not in ("private", "nested")
        if self.tokens[self.at][0] != "@":
            self.at += 1
        name = self.kernel = symbol(self.take())
        with self.isolated():
            args: list[Value] = []
            said: list[dict[str, Any]] = []
            self.expect("(")
            while not self.accept(")"):
                token = self.take()
                self.expect(":")
                type_ = self.type()
                said.append(self.attributes())
                args.append(self.define(token, type_, self.location()))
                self.accept(",")
            results = self.type_list() if self.accept("->") else []
            if self.accept("attributes"):
                self.attributes()
            body = self.region(args) if self.tokens[self.at] == "{" else Region(())
            loc = self.location()
        return Function(name, tuple(args), tuple(results), body, public, tuple(said), loc)

    # --- regions -------------------------------------------------------------------------------------------------

    def region(self, args: list[Value] | None = None, ending: str = "") -> Region:
        """`{ blocks }`. `args` are the entry block's where its header does not list them; `ending` is implied."""
        self.expect("{")
        blocks: list[Block] = []
        with self.scope():
            while not self.accept("}"):
                label, given = _ENTRY, tuple(args or ()) if not blocks else ()
                if self.tokens[self.at][0] == "^":
                    label, listed = self._header()
                    given = listed or given
                elif blocks:
                    self.fail("expected a block or }")
                blocks.append(Block(label, given, tuple(self._ops())))
        if ending:
            blocks = blocks or [Block(_ENTRY, tuple(args or ()), ())]
            last = blocks[-1]
            if not last.ops or last.ops[-1].name not in SCHEMA or not SCHEMA[last.ops[-1].name].terminator:
                blocks[-1] = Block(last.label, last.args, (*last.ops, Op(ending)))
        return Region(tuple(blocks))

    def _header(self) -> tuple[str, tuple[Value, ...]]:
        """`^label(%a: T loc(..), ...):`"""
        label = self.take()[1:]
        args: list[Value] = []
        if self.accept("("):
            while not self.accept(")"):
                token = self.take()
                self.expect(":")
                type_ = self.type()
                args.append(self.define(token, type_, self.location()))
                self.accept(",")
        self.expect(":")
        return label, tuple(args)

    def _ops(self) -> list[Op]:
        ops: list[Op] = []
        tokens, line, op = self.tokens, self.line, self.op
        while True:
            token = tokens[self.at]
            if " " in token:
                self.at += 1
                ops.append(line(token))
                continue
            if token[0] in "}^":
                return ops
            if token == END:
                self.fail("the text ends inside a region")
            ops.append(op())

    def op(self) -> Op:
        tokens = self.tokens
        start = self.at
        token = tokens[start]
        names: list[str] = []
        if token[0] == "%":
            if self._tile:
                return self._tile_op(*self._typed_names())
            names.append(token)
            while tokens[self.at + 1] == ",":
                self.at += 2
                names.append(tokens[self.at])
            self.at += 1
            self.expect("=")
            token = tokens[self.at]
        elif self._tile:
            return self._tile_op([], [])
        self.at += 1
        if token[0] == '"':
            return self._generic(unquote(token), names, start)
        special = SPECIAL.get(token)
        if special is not None:
            return special(self, token, names)
        form = form_of(token)
        if form is None:
            if "." not in token:
                self.fail("expected an op", self.at - 1)
            raise self.unsupported(f"op {token}", start)
        return self._simple(token, form, names, start)

    # --- the custom forms that are a head and types ----------------------------------------------------------------

    def _simple(self, name: str, form: Form, names: list[str], start: int) -> Op:
        head = self._head(form.bare)
        listed, given = self._types_after()
        try:
            if form.fix is not None:
                form.fix(head)
            if head.words:
                check_words(head, form.words)
            normalise(name, head.attributes)
            types = results_of(name, form, listed, given)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            self.fail(f"{name} does not read: {error}", start)
        return self.finish(name, names, head.operands, types, head.attributes, start)

    def _head(self, bare: bool) -> Head:
        """Operands, words and attributes up to the types, or up to the next op where there are none."""
        tokens, values = self.tokens, self.values
        operands: list[Value] = []
        words: list[str] = []
        marks: list[int] = []
        attributes: dict[str, Any] = {}
        at = self.at
        while True:
            token = tokens[at]
            first = token[0]
            if first == "%":
                if bare or tokens[at + 1] == "=" or ":" in token:
                    break
                value = values.get(token)
                if value is None:
                    self.at = at
                    value = self.use(token)
                operands.append(value)
            elif token == ":":
                if tokens[at + 1][0] != "%":  # tt.print has its operands behind a colon
                    break
            elif first in ",[]()|":
                pass
            elif first == "{":
                self.at = at
                attributes |= self.attributes()
                at = self.at - 1
            elif first == '"':
                if tokens[at + 1] == "(":
                    break
                words.append(unquote(token))
            elif first == "@":
                words.append(token)
            elif first.isalpha():
                following = tokens[at + 1]
                if token == "loc" or token[:4] == "loc(":
                    break
                if following == "=":
                    attributes[token] = tokens[at + 2]
                    at += 2
                elif following[0] == "<":
                    attributes[token] = following[1:-1]
                    at += 1
                elif "." in token:
                    break
                elif token == "scale":
                    marks.append(len(operands))
                elif token != "timeout":
                    words.append(token)
            else:
                break
            at += 1
        self.at = at
        return Head(operands, words, attributes, marks)

    def _types_after(self) -> tuple[list[Type], list[Type] | None]:
        """The types listed, and those after `->` or `to` if there is one of these."""
        tokens, known = self.tokens, self._types
        listed: list[Type] = []
        given: list[Type] | None = None
        at = self.at
        if tokens[at] == ":":
            at += 1
        elif tokens[at] != "->":
            return listed, None
        into = listed
        while True:
            token = tokens[at]
            found = known.get(token)
            if found is not None:
                into.append(found)
            elif token in ("->", "to"):
                into = given = []
            elif token not in _BETWEEN_TYPES:
                found = self.type_at(at)
                if found is None:
                    break
                into.append(found)
            at += 1
        self.at = at
        return listed, given

    # --- the generic form ----------------------------------------------------------------------------------------

    def _generic(self, name: str, names: list[str], start: int) -> Op:
        """`"name"(operands) [successors] <{properties}> ({regions}) {attributes} : (types) -> types`."""
        self.expect("(")
        operands = self._operands(")")
        labels: list[str] = []
        if self.accept("["):
            while not self.accept("]"):
                labels.append(self.take()[1:])
                self.accept(",")
        attributes: dict[str, Any] = {}
        if self.accept("<"):
            attributes = self.attributes()
            self.expect(">")
        regions = self._regions()
        attributes |= self.attributes()
        self.expect(":")
        listed, given = self.functional(start)
        segments = attributes.pop("operandSegmentSizes", None)
        successors: tuple[Successor, ...] = ()
        if labels:
            operands, successors = self._distribute(labels, operands, segments, start)
        if name == "tt.dot_scaled" and segments:
            attributes |= {"has_lhs_scale": bool(segments[3]), "has_rhs_scale": bool(segments[4])}
        try:
            normalise(name, attributes)
        except (ValueError, KeyError) as error:
            self.fail(f"{name} does not read: {error}", start)
        if len(listed) != len(operands) + sum(len(s.operands) for s in successors):
            self.fail(f"{name} has {len(operands)} operands, but {len(listed)} types are given for them", start)
        return self.finish(name, names, operands, given, attributes, start, regions, successors)

    def functional(self, start: int) -> tuple[list[Type], list[Type]]:
        listed, given = self.type_list(), None
        if self.accept("->"):
            given = self.type_list()
        if given is None:
            self.fail("expected ->", start)
        return listed, given

    def _operands(self, ending: str) -> list[Value]:
        found: list[Value] = []
        while not self.accept(ending):
            found.append(self.use(self.tokens[self.at]))
            self.at += 1
            self.accept(",")
        return found

    def _regions(self) -> tuple[Region, ...]:
        """`({...}, {...})` if it comes."""
        if self.tokens[self.at] != "(" or self.tokens[self.at + 1] != "{":
            return ()
        self.at += 1
        found = []
        while not self.accept(")"):
            found.append(self.region())
            self.accept(",")
        return tuple(found)

    def _distribute(
        self, labels: list[str], operands: list[Value], segments: Any, start: int
    ) -> tuple[list[Value], tuple[Successor, ...]]:
        """Splits the operands of a branch in generic form into its own and each successor's."""
        counts = list(segments) if segments else [0] * (len(labels) > 1) + [len(operands)]
        own = len(counts) - len(labels)
        if own < 0 or sum(counts) != len(operands):
            self.fail("operandSegmentSizes does not fit the operands", start)
        parts, at = [], 0
        for count in counts:
            parts.append(tuple(operands[at : at + count]))
            at += count
        kept = [value for part in parts[:own] for value in part]
        return kept, tuple(Successor(label, part) for label, part in zip(labels, parts[own:], strict=True))

    # --- the printer's form --------------------------------------------------------------------------------------

    def _typed_names(self) -> tuple[list[str], list[Type]]:
        """`%a: T, %b: T =`"""
        names, types = [], []
        while not self.accept("="):
            names.append(self.take())
            self.expect(":")
            types.append(self.type())
            self.accept(",")
        return names, types

    def _tile_op(self, names: list[str], types: list[Type]) -> Op:
        """`name operands -> successors {attributes} ({regions})`; a constant has its value in place of operands."""
        start = self.at
        name = self.take()
        if name[0] == '"':
            name = unquote(name)
        if name == "arith.constant" and types:
            value = self.constant(self.take(), types[0], start + 1)
            return self.finish(name, names, [], types, {"value": value}, start)
        operands: list[Value] = []
        while self.tokens[self.at][0] == "%" and self.tokens[self.at + 1] != ":":
            operands.append(self.use(self.tokens[self.at]))
            self.at += 1
            if not self.accept(","):
                break
        successors = []
        if self.accept("->"):
            while self.tokens[self.at][0] == "^":
                label = self.take()[1:]
                successors.append(Successor(label, tuple(self._operands(")")) if self.accept("(") else ()))
                if not self.accept(","):
                    break
        attributes = self.attributes()
        return self.finish(name, names, operands, types, attributes, start, self._regions(), tuple(successors))
