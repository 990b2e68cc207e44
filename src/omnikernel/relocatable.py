"""One ELF64 little-endian relocatable file of several (System V gABI, chapter 4), as `ld -r` makes it.

Sections stay apart, symbols become one table. What the files share with each other alone (hidden symbols that one of them
defines) is local afterwards, so that any number of results can be linked into one library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from . import elf

_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_NULL, _STRTAB, _RELA, _NOBITS, _REL, _GROUP = 0, 3, 4, 8, 9, 17  # SHT_*
_ADDRSIG = 0x6FFF4C03  # SHT_LLVM_ADDRSIG: numbers of symbols, for linkers that fold equal functions
_UNDEFINED, _RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
_LOCAL, _HIDDEN, _NOTYPE = 0, 2, 0  # STB_LOCAL, STV_HIDDEN, STT_NOTYPE
_STACK_NOTE = b".note.GNU-stack"


@dataclass(frozen=True, slots=True)
class _Section:
    """A section with its name; in the header the fields for names and places are those of the file it is from."""

    name: bytes
    header: elf.Section
    data: bytes


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: bytes
    binding: int
    kind: int
    visibility: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class _Object:
    identity: bytes
    machine: int
    flags: int
    sections: tuple[_Section, ...]
    symbols: tuple[_Symbol, ...]


def merge(files: Sequence[bytes]) -> bytes:
    """Make one relocatable file of several for the same machine.

    Raises:
        ValueError: a file is of another kind or machine, or a symbol is defined twice.
    """
    return _written([_read(data) for data in files])


# --- reading -------------------------------------------------------------------------------------------------------------


def _read(data: bytes) -> _Object:
    if not elf.is_elf64(data):
        raise ValueError("not an ELF64 little-endian file")
    identity, kind, machine, _, _, _, _, flags, *_, names = elf.HEADER.unpack_from(data)
    if kind != 1:  # ET_REL
        raise ValueError(f"not a relocatable file: type {kind}")
    headers = elf.sections(data)
    sections = []
    for header in headers:
        name = elf.text(data, headers[names].start + header.name)
        if header.kind in (_REL, _GROUP):
            raise ValueError(f"section {name.decode()} has a type that is not read: {header.kind}")
        content = b"" if header.kind in (_NULL, _NOBITS) else data[header.start : header.start + header.size]
        sections.append(_Section(name, header, content))
    return _Object(identity, machine, flags, tuple(sections), tuple(_symbols(sections)))


def _symbols(sections: Sequence[_Section]) -> Iterator[_Symbol]:
    for table in sections:
        if table.header.kind == elf.SYMTAB:
            strings = sections[table.header.link].data
            for name, info, other, section, value, size in _SYMBOL.iter_unpack(table.data):
                yield _Symbol(elf.text(strings, name), info >> 4, info & 15, other & 3, section, value, size)


# --- writing -------------------------------------------------------------------------------------------------------------


def _written(objects: Sequence[_Object]) -> bytes:
    first = objects[0]
    if any((o.machine, o.flags) != (first.machine, first.flags) for o in objects):
        raise ValueError("files for different machines")
    sections, places = _laid_out(objects)
    table = len(sections)
    symbols, numbers = _numbered(objects, places)
    for number, o in enumerate(objects):
        for at, section in enumerate(o.sections):
            if section.header.kind == _RELA:
                here = places[number][at]
                data = b"".join(
                    _RELOCATION.pack(offset, numbers[number][info >> 32] << 32 | info & 0xFFFFFFFF, addend)
                    for offset, info, addend in _RELOCATION.iter_unpack(section.data)
                )
                header = section.header._replace(link=table, info=places[number][section.header.info])
                sections[here] = replace(section, header=header, data=data)
    strings = _Strings()
    rows = b"".join(
        _SYMBOL.pack(strings.place(s.name), s.binding << 4 | s.kind, s.visibility, s.section, s.value, s.size)
        for s in symbols
    )
    local = sum(s.binding == _LOCAL for s in symbols)
    header = elf.Section(0, elf.SYMTAB, 0, 0, 0, len(rows), table + 1, local, 8, _SYMBOL.size)
    sections.append(_Section(b".symtab", header, rows))
    sections.append(_strings(b".strtab", bytes(strings.data)))
    return _file(first, sections)


def _strings(name: bytes, data: bytes) -> _Section:
    return _Section(name, elf.Section(0, _STRTAB, 0, 0, 0, len(data), 0, 0, 1, 0), data)


def _laid_out(objects: Sequence[_Object]) -> tuple[list[_Section], list[dict[int, int]]]:
    """The sections of all, but the tables that are made anew, and for each file where its sections are now."""
    sections = [_Section(b"", elf.Section(*[0] * len(elf.Section._fields)), b"")]
    places: list[dict[int, int]] = []
    for number, o in enumerate(objects):
        place = {_UNDEFINED: _UNDEFINED}
        for at, section in enumerate(o.sections):
            made_anew = section.header.kind in (_NULL, elf.SYMTAB, _STRTAB, _ADDRSIG)
            if not made_anew and not (number and section.name == _STACK_NOTE):
                place[at] = len(sections)
                sections.append(section)
        places.append(place)
    return sections, places


def _numbered(
    objects: Sequence[_Object], places: Sequence[dict[int, int]]
) -> tuple[list[_Symbol], list[dict[int, int]]]:
    """One table of symbols, local ones first, and for each file the new numbers of its own."""
    table = [_Symbol(b"", 0, 0, 0, 0, 0, 0)]
    numbers: list[dict[int, int]] = [{0: 0} for _ in objects]
    taken = {symbol.name for o in objects for symbol in o.symbols if symbol.binding != _LOCAL}
    shared: dict[bytes, _Symbol] = {}
    for number, o in enumerate(objects):
        for at, symbol in enumerate(o.symbols[1:], 1):
            name, defined = symbol.name, symbol.section != _UNDEFINED
            inside = defined and symbol.section < _RESERVED
            here = replace(symbol, section=places[number][symbol.section]) if inside else symbol
            if symbol.binding == _LOCAL:
                numbers[number][at] = len(table)
                table.append(replace(here, name=_unlike(taken, name)) if symbol.kind == _NOTYPE else here)
            elif name not in shared or (defined and shared[name].section == _UNDEFINED):
                shared[name] = here
            elif defined:
                raise ValueError(f"symbol {name.decode()} is defined twice")
    ordered = sorted(shared.values(), key=lambda s: not _becomes_local(s))
    found = {symbol.name: len(table) + i for i, symbol in enumerate(ordered)}
    table += (replace(s, binding=_LOCAL, visibility=0) if _becomes_local(s) else s for s in ordered)
    for number, o in enumerate(objects):
        numbers[number].update((i, found[s.name]) for i, s in enumerate(o.symbols) if s.binding != _LOCAL)
    return table, numbers


def _unlike(taken: set[bytes], name: bytes) -> bytes:
    """A name that no other symbol has: LLVM's RuntimeDyld finds even constants of a function, which are local, by name."""
    while name in taken:
        name += b".1"
    taken.add(name)
    return name


def _becomes_local(symbol: _Symbol) -> bool:
    return symbol.visibility == _HIDDEN and symbol.section != _UNDEFINED


class _Strings:
    """A string table that is being filled."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")

    def place(self, text: bytes) -> int:
        if not text:
            return 0
        at = len(self.data)
        self.data += text + b"\0"
        return at


def _file(like: _Object, sections: Sequence[_Section]) -> bytes:
    names = _Strings()
    places = [names.place(section.name) for section in sections]
    places.append(names.place(b".shstrtab"))
    rows: list[bytes] = []
    data = bytearray(elf.HEADER.size)
    for name, section in zip(places, [*sections, _strings(b".shstrtab", bytes(names.data))], strict=True):
        data += bytes(-len(data) % max(1, section.header.align))
        start = len(data) if section.header.kind else 0
        rows.append(elf.SECTION.pack(*section.header._replace(name=name, start=start)))
        data += section.data
    data += bytes(-len(data) % 8)
    table = len(data)
    data += b"".join(rows)
    head = (like.identity, 1, like.machine, 1, 0, 0, table, like.flags, elf.HEADER.size, 0, 0, elf.SECTION.size)
    elf.HEADER.pack_into(data, 0, *head, len(rows), len(rows) - 1)
    return bytes(data)
