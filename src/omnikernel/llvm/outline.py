"""Loops of a function become functions, called in their places: those that are the same but for what they read, and in
a long function some others, so that two threads have as much to compile.

Triton inlines what a kernel calls, and kernels treat trips before an edge and those at it in loops of their own, so the
same nests over tiles are written out several times. LLVM takes some 40 microseconds for an instruction: flash attention
with two such loops compiles in two thirds of the time. A call costs a few nanoseconds, and a nest over a tile far more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, filterfalse
from operator import methodcaller

from .values import LType

# Lines that a function must save. LLVM takes as long for one that is empty.
LEAST = 24

# Characters of a function from which two threads compile it.
LARGE = 32_000

# Characters are spelled out: a set of them is looked up in a table, \w is not.
_NAME = re.compile(r"(%[A-Za-z0-9_.?]+)")
_LABEL = re.compile(r"\n(?! )")
_DEFINED = re.compile(r"\n(?:  )?(%[A-Za-z0-9_.?]+)")


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
    """The names in a function's lines, and the text between them.

    All is read at once and found by numbers of names: a look at each line takes ten times as long.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        text = _LABEL.sub("\n%", "\n".join(["", *lines]))  # labels are names, too
        parts: list[str] = _NAME.split(text)
        self.names, self.between = parts[1::2], parts[::2]  # between[i] stands before names[i]
        self.marked = text.split("\n")[1:]
        counts = map(methodcaller("count", "%"), self.marked)
        self.starts: list[int] = list(accumulate(counts, initial=0))  # the number of a line's first name
        numbers = range(len(self.names))
        self.last = dict(zip(self.names, numbers, strict=True))
        self.first = dict(zip(reversed(self.names), reversed(numbers), strict=True))

    def shape(self, region: _Region) -> str:
        """The text without names."""
        return "%".join(self.between[self.starts[region.start] + 1 : self.starts[region.end] + 1])

    def defined(self, region: _Region) -> set[str]:
        """The labels and values that are defined in a region."""
        return set(_DEFINED.findall("\n".join(["", *self.marked[region.start : region.end]])))

    def closed(self, region: _Region, inside: set[str]) -> bool:
        """Whether nothing that is defined in a region is used outside; its head may be, by what enters it."""
        head = f"%{region.loop.head}"
        first, start, end = self.first, self.starts[region.start], self.starts[region.end]
        return (
            max(map(self.last.__getitem__, inside)) < end
            and min(map(first.__getitem__, inside - {head}), default=start) >= start
            and first[head] >= self.starts[region.start - 1]
        )

    def numbered(self, region: _Region, inside: set[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The region's names as numbers in the order of their first appearance, and those that come from outside."""
        around = f"%{region.loop.done}", f"%{region.loop.before}"
        names = self.names[self.starts[region.start] : self.starts[region.end]]
        distinct = dict.fromkeys((*around, *names))
        numbers = dict(zip(distinct, range(len(distinct)), strict=True))
        outside = tuple(filterfalse(inside.__contains__, distinct))[len(around) :]
        return tuple(map(numbers.__getitem__, names)), outside


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
    places = dict(zip(lines, range(len(lines)), strict=True))
    by_size: defaultdict[int, list[_Region]] = defaultdict(list)
    for loop in loops:
        region = _Region(loop, places[f"{loop.head}:"], places[f"{loop.done}:"])
        by_size[region.size].append(region)
    groups = [by_size[size] for size in sorted(by_size, reverse=True) if _pays(len(by_size[size]), size)]
    large = sum(map(len, lines)) >= LARGE
    if not groups and not large:
        return list(lines), []
    body = _Body(lines)
    promoted = set(_promoted(slots))

    def passes(name: str) -> bool:
        type_ = types.get(name)
        return type_ is not None and not (type_.lanes and type_.bits == 1) and name not in promoted

    functions: list[str] = []
    calls: dict[int, tuple[int, list[str]]] = {}
    chosen = _chosen(body, groups, passes)
    if large:
        chosen += _balancing(body, [r for size in sorted(by_size, reverse=True) for r in by_size[size]], chosen, passes)
    for number, copies in enumerate(chosen):
        name = f"{prefix}{number}"
        functions.append(_function(body, copies[0], name, types, attributes))
        for copy in copies:
            calls[copy.region.start] = copy.region.end, _call(copy, name, types)
    return _replaced(lines, calls), functions


def _promoted(slots: Iterable[str]) -> Iterator[str]:
    """Stack slots of scalars, which LLVM makes registers unless their address is passed on."""
    for slot in slots:
        name, _, made = slot.strip().partition(" = ")
        if made.startswith("alloca ") and not made.startswith("alloca ["):
            yield name


def _pays(copies: int, size: int) -> bool:
    return (copies - 1) * size >= LEAST


def _chosen(body: _Body, groups: Iterable[Sequence[_Region]], passes: Callable[[str], bool]) -> list[Sequence[_Copy]]:
    """Sets of equal regions, the largest first, none within another.

    Args:
        groups: regions of one size each, the largest first.
        passes: whether the value of a name may be passed to a function.
    """
    taken: list[_Region] = []
    chosen: list[Sequence[_Copy]] = []
    for group in groups:
        alike: defaultdict[str, list[_Region]] = defaultdict(list)
        for region in group:
            if not any(region.overlaps(other) for other in taken):
                alike[body.shape(region)].append(region)
        for shape, regions in alike.items():
            if _pays(len(regions), regions[0].size) and not _leaves(shape):
                for copies in _equal(body, regions, passes):
                    if _pays(len(copies), copies[0].region.size):
                        chosen.append(copies)
                        taken += (copy.region for copy in copies)
    return chosen


def _leaves(shape: str) -> bool:
    """Whether a loop with this text has a return in it: it is not left by its end alone."""
    return "\n  ret" in shape or "\n  unreachable" in shape


def _balancing(
    body: _Body, regions: Iterable[_Region], chosen: Iterable[Sequence[_Copy]], passes: Callable[[str], bool]
) -> list[Sequence[_Copy]]:
    """Loops that appear once, until what is left of the function is no longer than all functions made of it.

    Args:
        regions: all loops, the largest first.
        chosen: those that are functions already.
    """
    taken = [copy.region for copies in chosen for copy in copies]
    made = sum(copies[0].region.size for copies in chosen)
    left = len(body.lines) - sum(region.size for region in taken)
    single: list[Sequence[_Copy]] = []
    for region in regions:
        fits = LEAST <= region.size <= (left - made) // 2
        if fits and not any(region.overlaps(other) for other in taken) and not _leaves(body.shape(region)):
            for copies in _equal(body, [region], passes):
                single.append(copies)
                taken.append(region)
                left, made = left - region.size, made + region.size
    return single


def _equal(body: _Body, regions: Iterable[_Region], passes: Callable[[str], bool]) -> Iterable[Sequence[_Copy]]:
    """Sets of regions that are the same but for what they read, of those that may be functions; all of one size."""
    equal: defaultdict[tuple[int, ...], list[_Copy]] = defaultdict(list)
    for region in regions:
        inside = body.defined(region)
        if body.closed(region, inside):
            order, outside = body.numbered(region, inside)
            if all(map(passes, outside)):
                equal[order].append(_Copy(region, outside))
    return equal.values()


def _function(body: _Body, copy: _Copy, name: str, types: Mapping[str, LType], attributes: str) -> str:
    region, loop = copy.region, copy.region.loop
    parameters = ", ".join(f"{types[value]} {value}" for value in copy.arguments)
    lines = [
        line.replace(f"%{loop.before} ]", "%entry ]") if " = phi " in line else line
        for line in body.lines[region.start : region.end]
    ]
    head = f"define internal void @{name}({parameters}) noinline {attributes}{{"
    return "\n".join([head, "entry:", f"  br label %{loop.head}", *lines, f"{loop.done}:", "  ret void", "}"])


def _call(copy: _Copy, name: str, types: Mapping[str, LType]) -> list[str]:
    """What stands in the place of a loop."""
    loop = copy.region.loop
    arguments = ", ".join(f"{types[value]} {value}" for value in copy.arguments)
    return [f"{loop.head}:", f"  call void @{name}({arguments})", f"  br label %{loop.done}"]


def _replaced(lines: Sequence[str], calls: Mapping[int, tuple[int, list[str]]]) -> list[str]:
    """Lines with those that start at a place, and end before another, replaced."""
    replaced: list[str] = []
    done = 0
    for at, (end, instead) in sorted(calls.items()):
        replaced += lines[done:at]
        replaced += instead
        done = end
    replaced += lines[done:]
    return replaced
