"""The parts of the reader that every construct needs: tokens, values and scopes, types, attributes, locations, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ..errors import OmnikernelError
from ..ir.printer import DEFAULTS
from ..ir.tile import UNKNOWN, Constant, Location, Op, Region, Successor, Value
from ..ir.types import F32, Type
from ..ir.verify import unsupported
from .constants import dense_elements, parse_type
from .forms import array_elements, symbol
from .lexer import END, fault, rest_of_line, split_aliases, unquote
from .locations import Locations

_NUMBER = re.compile(r"-?\d+(\.\d*(?:[eE][+-]?\d+)?)?")


class Reader:
    """A cursor (`at`) over the tokens of one module, with the values defined so far.

    A value used above its definition (blocks may be printed in any order) is made at its first use and gets its type
    when its definition is read.
    """

    def __init__(self, text: str, version: str) -> None:
        self.text, aliases = split_aliases(text)
        self.version = version
        self.tokens: list[str] = []
        self.at = 0
        self.values: dict[str, Value] = {}
        self.kernel = ""
        self._scope: list[str] = []
        self._pending: dict[str, int] = {}
        self._locations = Locations(aliases)
        self._types: dict[str, Type] = {}

    # --- errors and tokens ---------------------------------------------------------------------------------------

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises the ParseError for the token at that index, by default the current one."""
        raise fault(self.text, self.at if at is None else at, message)

    def expect(self, token: str) -> None:
        """Steps over a token that must come."""
        if self.tokens[self.at] != token:
            self.fail(f"expected {token}")
        self.at += 1

    def accept(self, token: str) -> bool:
        """Steps over a token if it comes."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def take(self) -> str:
        """Steps over any token and gives it; there must be one, so that no loop runs past the end."""
        token = self.tokens[self.at]
        if token == END:
            self.fail("the text ends too early")
        self.at += 1
        return token

    def unsupported(self, what: str, at: int) -> OmnikernelError:
        """The UnsupportedOp error for what stands at a token, with the location that its line states."""
        loc = self._locations.on_line(rest_of_line(self.text, at))
        return unsupported(what, self.version, loc, self.kernel)

    # --- values --------------------------------------------------------------------------------------------------

    def use(self, token: str) -> Value:
        """The value of a use such as `%x` or `%x#1`."""
        value = self.values.get(token)
        if value is None:
            if token[0] != "%":
                self.fail("expected a value")
            value = self.values[token] = Value(token[1:], F32)
            self._pending[token] = self.at
        return value

    def define(self, token: str, type_: Type, loc: Location = UNKNOWN) -> Value:
        """A new value under that name, visible to the end of the region."""
        known = self.values.get(token)
        if known is not None:
            if token not in self._pending:
                self.fail(f"{token} is defined twice")
            del self._pending[token]
            object.__setattr__(known, "type", type_)
            object.__setattr__(known, "loc", loc)
            self._scope.append(token)
            return known
        value = self.values[token] = Value(token[1:], type_, loc)
        self._scope.append(token)
        return value

    def alias(self, token: str, value: Value) -> None:
        """A second name for a value."""
        self.values[token] = value
        self._scope.append(token)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values defined inside are not visible after it."""
        mark = len(self._scope)
        yield
        for token in self._scope[mark:]:
            self.values.pop(token, None)
        del self._scope[mark:]

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """A function: sees no values from outside, and must define all that it uses."""
        self.values, self._scope = {}, []
        yield
        for token, at in self._pending.items():
            self.fail(f"{token} is used but never defined", at)
        self.values = {}

    # --- types and locations -------------------------------------------------------------------------------------

    def type_at(self, at: int) -> Type | None:
        """The type that the token at an index spells, or None where it spells no type at all.

        Raises:
            UnsupportedOp: for a type that tile IR does not have.
        """
        token = self.tokens[at]
        found = self._types.get(token)
        if found is None:
            head = token[0]
            if (
                not (head in "!<" or head.isalpha())
                or token == "loc"
                or token[:4] == "loc("
                or ("." in token and token[-1] != ">")
            ):
                return None
            found = parse_type(token)
            if found is None:
                raise self.unsupported(f"type {token}", at)
            self._types[token] = found
        return found

    def type(self) -> Type:
        """Steps over a type that must come."""
        found = self.type_at(self.at)
        if found is None:
            self.fail("expected a type")
        self.at += 1
        return found

    def type_list(self) -> list[Type]:
        """`T` or `(T, T)`, with the attributes that a function's results may have stepped over."""
        if not self.accept("("):
            return [self.type()]
        found: list[Type] = []
        while not self.accept(")"):
            found.append(self.type())
            self.attributes()
            self.accept(",")
        return found

    def location(self) -> Location:
        """The location that may come here, or UNKNOWN."""
        token = self.tokens[self.at]
        if token.startswith("loc("):
            self.at += 1
            return self._locations.numbered(token)
        if token != "loc" or self.tokens[self.at + 1] != "(":
            return UNKNOWN
        try:
            loc, self.at = self._locations.parse(self.tokens, self.at + 1)
        except (ValueError, IndexError) as error:
            raise fault(self.text, self.at, str(error)) from error
        return loc

    # --- attributes ----------------------------------------------------------------------------------------------

    def attributes(self) -> dict[str, Any]:
        """The attribute dictionary that may come here."""
        found: dict[str, Any] = {}
        if not self.accept("{"):
            return found
        tokens = self.tokens
        while not self.accept("}"):
            key = self.take()
            if key[0] == '"':
                key = unquote(key)
            elif not (key[0].isalpha() or key[0] == "_"):
                self.fail("expected the name of an attribute", self.at - 1)
            if self.accept("="):
                found[key] = self.attribute()
            else:
                found[key] = True
            if tokens[self.at] != "}":
                self.expect(",")
        return found

    def attribute(self) -> Any:
        """One attribute value, as Python's."""
        token = self.take()
        number = _NUMBER.fullmatch(token)
        if number:
            value: Any = float(token) if number[1] else int(token)
            if self.accept(":"):
                value = float(value) if str(self.type()).startswith(("f", "bf")) else value
            return value
        head = token[0]
        if head == '"':
            if self.accept(":"):
                self.type()
            return unquote(token)
        if token in ("true", "false"):
            return token == "true"
        if token == "[":
            items = []
            while not self.accept("]"):
                items.append(self.attribute())
                self.accept(",")
            return tuple(items)
        if head == "{":
            self.at -= 1
            return self.attributes()
        if head == "@":
            return symbol(token)
        if token.startswith("array<"):
            return array_elements(token[6:-1])
        if token.startswith("dense<"):
            self.expect(":")
            return self.constant(token, self.type(), self.at - 3)
        return self._word_or_type(token)

    def _word_or_type(self, token: str) -> Any:
        """An enumeration's word, a dialect's attribute as it stands, or a type."""
        if token == "unit":
            return True
        if token[0] in "#":
            return token
        if token.startswith("0x"):
            if self.accept(":"):
                self.type()
            return int(token, 16)
        found = parse_type(token)
        if found is not None:
            return found
        if not (token[0].isalpha() or token[0] == "_"):
            self.fail("expected an attribute", self.at - 1)
        return token

    def constant(self, token: str, type_: Type, at: int) -> Constant:
        """The constant that `dense<...>` or a literal means in a type."""
        body = token[6:-1] if token.startswith("dense<") else token
        try:
            return Constant(dense_elements(body, type_), type_)
        except (ValueError, TypeError) as error:
            raise fault(self.text, at, str(error)) from error

    # --- ops -----------------------------------------------------------------------------------------------------

    def finish(
        self,
        name: str,
        names: list[str],
        operands: list[Value],
        types: list[Type],
        attributes: dict[str, Any],
        at: int,
        regions: tuple[Region, ...] = (),
        successors: tuple[Successor, ...] = (),
    ) -> Op:
        """Reads the location that may come, defines the results and makes the op. `at` is for faults."""
        token = self.tokens[self.at]
        if token[:4] == "loc(":
            self.at += 1
            loc = self._locations.numbered(token)
        else:
            loc = self.location()
        usual = DEFAULTS.get(name)
        if usual is not None:
            attributes = {**usual, **attributes}
        if len(names) == 1 and len(types) == 1 and ":" not in names[0]:
            results: tuple[Value, ...] = (self.define(names[0], types[0], loc),)
        elif names or types:
            results = self._results(names, types, loc, at)
        else:
            results = ()
        return Op(name, tuple(operands), results, attributes, regions, successors, loc)

    def _results(self, names: list[str], types: list[Type], loc: Location, at: int) -> tuple[Value, ...]:
        """Several results: `%a:2` defines %a#0 and %a#1."""
        each: list[str] = []
        for token in names:
            base, _, count = token.partition(":")
            each += [f"{base}#{i}" for i in range(int(count))] if count else [base]
        if len(each) != len(types):
            self.fail(f"{len(each)} results are named, but {len(types)} types are given", at)
        values = tuple(self.define(token, type_, loc) for token, type_ in zip(each, types, strict=True))
        for token in names:
            base, _, count = token.partition(":")
            if count and base not in self.values:
                self.alias(base, self.values[f"{base}#0"])
        return values
