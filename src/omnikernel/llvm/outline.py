"""Loops of a function that are the same but for what they read become one function, called in their places.

Triton inlines what a kernel calls, and kernels treat trips before an edge and those at it in loops of their own, so the
same nests over tiles are written out several times. LLVM takes some 40 microseconds for an instruction: flash attention
with two such loops compiles in two thirds of the time. A call costs a few nanoseconds, and a nest over a tile far more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .values import LType

# Lines that a function must save. LLVM takes as long for one that is empty.
LEAST = 24

_NAME = re.compile(r"(%[\w.?]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop by its labels: its head, the block after it, and the one that enters it."""

    head: str
    done: str
    before: str


@dataclass(frozen=True, slots=True)
class _Region:
    """The lines of a loop, from the label of its head to that of the block after it (exclusive)."""

    loop: Loop
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def overlaps(self, other: _Region) -> bool:
        return self.start < other.end and other.start < self.end


class _Body:
    """A function's lines. What is read of one, its text without names and its names, is read once, when it is asked for."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.labels = {line[:-1]: at for at, line in enumerate(lines) if line[0] != " "}
        self._shapes: dict[str, int] = {}
        self._read: list[tuple[int, list[str]] | None] = [None] * len(lines)

    def read(self, at: int) -> tuple[int, list[str]]:
        """The number of the line's text, the same for lines that differ in names alone; and its names."""
        found = self._read[at]
        if found is None:
            line = self.lines[at]
            parts = _NAME.split(line if line[0] == " " else f"%{line}")
            shape = self._shapes.setdefault("%".join(parts[::2]), len(self._shapes))
            found = self._read[at] = shape, parts[1::2]
        return found

    def shape(self, region: _Region) -> tuple[int, ...]:
        return tuple([self.read(at)[0] for at in range(region.start, region.end)])

    def names(self, region: _Region) -> Iterator[list[str]]:
        return (self.read(at)[1] for at in range(region.start, region.end))

    def defined(self, region: _Region) -> set[str]:
        """The labels and values that are defined in a region."""
        lines = self.lines
        return {
            self.read(at)[1][0] for at in range(region.start, region.end) if lines[at][0] != " " or lines[at][2] == "%"
        }

    def numbered(self, region: _Region, inside: set[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The region's names as numbers in the order of their first appearance, and those that come from outside."""
        numbers = {f"%{region.loop.done}": -1, f"%{region.loop.before}": -2}
        order: list[int] = []
        for names in self.names(region):
            for name in names:
                if name not in numbers:
                    numbers[name] = len(numbers)
                order.append(numbers[name])
        return tuple(order), tuple(name for name, n in numbers.items() if n > 0 and name not in inside)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A region that may be called instead, with its arguments."""

    region: _Region
    arguments: tuple[str, ...]


def outline(
    lines: Sequence[str],
    loops: Sequence[Loop],
    types: Mapping[str, LType],
    slots: Iterable[str],
    attributes: str,
    prefix: str,
) -> tuple[list[str], list[str]]:
    """Make functions of loops that appear more than once.

    Args:
        lines: the body of a function, without its stack slots.
        loops: its loops, each textually in one piece.
        types: of the values by name; one that is not there is not passed to a function.
        slots: the text of its stack slots.
        attributes: of the function; those made have them too.
        prefix: of the names of functions made, unique in the module.

    Returns:
        The body with calls, and the texts of the functions that they call.
    """
    body = _Body(lines)
    by_size: defaultdict[int, list[_Region]] = defaultdict(list)
    for loop in loops:
        region = _Region(loop, body.labels[loop.head], body.labels[loop.done])
        by_size[region.size].append(region)
    groups = [by_size[size] for size in sorted(by_size, reverse=True) if _pays(len(by_size[size]), size)]
    if not groups:
        return list(lines), []
    known = {name: type_ for name, type_ in types.items() if not (type_.lanes and type_.bits == 1)}
    for name in _promoted(slots):
        known.pop(name, None)
    functions: list[str] = []
    calls: dict[int, tuple[int, list[str]]] = {}
    for number, copies in enumerate(_chosen(body, groups, known)):
        name = f"{prefix}{number}"
        functions.append(_function(body, copies[0], name, known, attributes))
        for copy in copies:
            calls[copy.region.start] = copy.region.end, _call(copy, name, known)
    return list(_replaced(lines, calls)), functions


def _promoted(slots: Iterable[str]) -> Iterator[str]:
    """Stack slots of scalars, which LLVM makes registers unless their address is passed on."""
    for slot in slots:
        name, _, made = slot.strip().partition(" = ")
        if made.startswith("alloca ") and not made.startswith("alloca ["):
            yield name


def _pays(copies: int, size: int) -> bool:
    return (copies - 1) * size >= LEAST


def _chosen(body: _Body, groups: Iterable[Sequence[_Region]], known: Mapping[str, LType]) -> list[Sequence[_Copy]]:
    """Sets of equal regions, the largest first, none within another.

    Args:
        groups: regions of one size each, the largest first.
    """
    uses: _Uses | None = None
    taken: list[_Region] = []
    chosen: list[Sequence[_Copy]] = []
    for group in groups:
        alike: defaultdict[tuple[int, ...], list[_Region]] = defaultdict(list)
        for region in group:
            if not any(region.overlaps(other) for other in taken):
                alike[body.shape(region)].append(region)
        for regions in alike.values():
            if _pays(len(regions), regions[0].size):
                uses = uses or _Uses(body)
                for copies in _equal(body, regions, uses, known):
                    chosen.append(copies)
                    taken += (copy.region for copy in copies)
    return chosen


def _equal(
    body: _Body, regions: Iterable[_Region], uses: _Uses, known: Mapping[str, LType]
) -> Iterator[Sequence[_Copy]]:
    """Sets of regions that are the same but for what they read; all of one size."""
    equal: defaultdict[tuple[int, ...], list[_Copy]] = defaultdict(list)
    for region in regions:
        inside = body.defined(region)
        if uses.closed(region, inside):
            order, outside = body.numbered(region, inside)
            if all(name in known for name in outside):
                equal[order].append(_Copy(region, outside))
    for copies in equal.values():
        if _pays(len(copies), copies[0].region.size):
            yield copies


class _Uses:
    """The first and the last line in which each name appears."""

    def __init__(self, body: _Body) -> None:
        self.body = body
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        for at in range(len(body.lines)):
            for name in body.read(at)[1]:
                self.first.setdefault(name, at)
                self.last[name] = at

    def closed(self, region: _Region, inside: Iterable[str]) -> bool:
        """Whether nothing that is defined in a region is used outside, and it is left by its end alone."""
        head, first, last = f"%{region.loop.head}", self.first, self.last
        return all(
            last[name] < region.end
            and (first[name] >= region.start or (name == head and first[name] == region.start - 1))
            for name in inside
        ) and not any(
            line.startswith(("  ret", "  unreachable")) for line in self.body.lines[region.start : region.end]
        )


def _function(body: _Body, copy: _Copy, name: str, known: Mapping[str, LType], attributes: str) -> str:
    region, loop = copy.region, copy.region.loop
    parameters = ", ".join(f"{known[value]} {value}" for value in copy.arguments)
    lines = [
        line.replace(f"%{loop.before} ]", "%entry ]") if " = phi " in line else line
        for line in body.lines[region.start : region.end]
    ]
    head = f"define internal void @{name}({parameters}) noinline {attributes}{{"
    return "\n".join([head, "entry:", f"  br label %{loop.head}", *lines, f"{loop.done}:", "  ret void", "}"])


def _call(copy: _Copy, name: str, known: Mapping[str, LType]) -> list[str]:
    """What stands in the place of a loop."""
    loop = copy.region.loop
    arguments = ", ".join(f"{known[value]} {value}" for value in copy.arguments)
    return [f"{loop.head}:", f"  call void @{name}({arguments})", f"  br label %{loop.done}"]


def _replaced(lines: Sequence[str], calls: Mapping[int, tuple[int, list[str]]]) -> Iterator[str]:
    """Lines with those that start at a place, and end before another, replaced."""
    at = 0
    while at < len(lines):
        if at in calls:
            at, instead = calls[at]
            yield from instead
        else:
            yield lines[at]
            at += 1
