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

_NAME = re.compile(r"(%[\w.?]+)")


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
    """A function's lines, each as its text without names, and its names."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.shapes: list[tuple[str, ...]] = []
        self.names: list[list[str]] = []
        self.labels: dict[str, int] = {}
        for at, line in enumerate(lines):
            is_label = line[0] != " "
            if is_label:
                self.labels[line[:-1]] = at
            parts = _NAME.split(f"%{line}" if is_label else line)
            self.shapes.append(tuple(parts[::2]))
            self.names.append(parts[1::2])

    def regions(self, loops: Iterable[Loop]) -> list[_Region]:
        found = (_Region(loop, self.labels[loop.head], self.labels[loop.done]) for loop in loops)
        return sorted(found, key=lambda region: (-region.size, region.start))

    def defined(self, region: _Region) -> set[str]:
        """The labels and values that are defined in a region."""
        return {
            self.names[at][0]
            for at in range(region.start, region.end)
            if self.shapes[at][0] == "" or (self.shapes[at][1:2] and self.shapes[at][1].startswith(" = "))
        }

    def numbered(self, region: _Region) -> tuple[list[int], list[str]]:
        """The region's names as numbers in the order of their first appearance, and those that come from outside."""
        inside = self.defined(region)
        numbers = {f"%{region.loop.done}": -1, f"%{region.loop.before}": -2}
        order: list[int] = []
        outside: list[str] = []
        for at in range(region.start, region.end):
            for name in self.names[at]:
                if name not in numbers:
                    numbers[name] = len(numbers)
                    if name not in inside:
                        outside.append(name)
                order.append(numbers[name])
        return order, outside


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
    if len(loops) < 2 or len(lines) < 2 * LEAST:
        return list(lines), []
    body = _Body(lines)
    alike: defaultdict[int, list[_Region]] = defaultdict(list)
    regions = body.regions(loops)
    for region in regions:
        if region.size >= 2:
            alike[hash(tuple(body.shapes[region.start : region.end]))].append(region)
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return list(lines), []
    known = {name: type_ for name, type_ in types.items() if not (type_.lanes and type_.bits == 1)}
    for name in _promoted(slots):
        known.pop(name, None)
    made = _chosen(body, groups, known)
    functions: list[str] = []
    calls: dict[int, tuple[int, list[str]]] = {}
    for number, copies in enumerate(made):
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


def _chosen(body: _Body, groups: Sequence[Sequence[_Region]], known: Mapping[str, LType]) -> list[list[_Copy]]:
    """Sets of equal regions, the largest first, none within another."""
    first, last = _uses(body)
    taken: list[_Region] = []
    chosen = []
    for group in groups:  # the largest come first, as in `regions`
        equal: defaultdict[tuple[int, ...], list[_Copy]] = defaultdict(list)
        for region in group:
            if any(region.overlaps(other) for other in taken) or not _closed(body, region, first, last):
                continue
            order, outside = body.numbered(region)
            if all(name in known for name in outside):
                equal[tuple(order)].append(_Copy(region, tuple(outside)))
        for copies in equal.values():
            apart = [c for i, c in enumerate(copies) if not any(c.region.overlaps(o.region) for o in copies[:i])]
            if (len(apart) - 1) * apart[0].region.size >= LEAST:
                chosen.append(apart)
                taken += (copy.region for copy in apart)
    return chosen


def _uses(body: _Body) -> tuple[dict[str, int], dict[str, int]]:
    """The first and the last line in which each name appears."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for at, names in enumerate(body.names):
        for name in names:
            first.setdefault(name, at)
            last[name] = at
    return first, last


def _closed(body: _Body, region: _Region, first: Mapping[str, int], last: Mapping[str, int]) -> bool:
    """Whether nothing that is defined in a region is used outside, and it is left by its end alone."""
    head = f"%{region.loop.head}"
    return all(
        last[name] < region.end and (first[name] >= region.start or (name == head and first[name] == region.start - 1))
        for name in body.defined(region)
    ) and not any(body.shapes[at][0].startswith(("  ret", "  unreachable")) for at in range(region.start, region.end))


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
