"""One ELF64 little-endian relocatable file of several (System V gABI, chapter 4), as `ld -r` makes it.

Sections stay apart, symbols become one table. What the files share with each other alone (hidden symbols that one of them
defines) is local afterwards, so that any number of results can be linked into one library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_NULL, _SYMTAB, _STRTAB, _RELA, _NOBITS, _REL, _GROUP = 0, 2, 3, 4, 8, 9, 17  # SHT_*
_ADDRSIG = 0x6FFF4C03  # SHT_LLVM_ADDRSIG: numbers of symbols, for linkers that fold equal functions
_UNDEFINED, _RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
_LOCAL, _HIDDEN, _NOTYPE = 0, 2, 0  # STB_LOCAL, STV_HIDDEN, STT_NOTYPE
_STACK_NOTE = b".note.GNU-stack"


@dataclass(frozen=True, slots=True)
class _Section:
    name: bytes
    kind: int
    flags: int
    link: int
    info: int
    align: int
    entry: int
    size: int
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
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not an ELF64 little-endian file")
    identity, kind, machine, _, _, _, table, flags, _, _, _, size, count, names = _HEADER.unpack_from(data)
    if kind != 1:  # ET_REL
        raise ValueError(f"not a relocatable file: type {kind}")
    rows = [_SECTION.unpack_from(data, table + i * size) for i in range(count)]
    strings = rows[names][4]
    sections = []
    for name, kind, flags_, _, start, length, link, info, align, each in rows:
        if kind in (_REL, _GROUP):
            raise ValueError(f"section {_text(data, strings + name)!r} has a type that is not read: {kind}")
        content = b"" if kind in (_NULL, _NOBITS) else data[start : start + length]
        sections.append(_Section(_text(data, strings + name), kind, flags_, link, info, align, each, length, content))
    return _Object(identity, machine, flags, tuple(sections), tuple(_symbols(sections)))


def _symbols(sections: Sequence[_Section]) -> Iterator[_Symbol]:
    for table in sections:
        if table.kind == _SYMTAB:
            strings = sections[table.link].data
            for name, info, other, section, value, size in _SYMBOL.iter_unpack(table.data):
                yield _Symbol(_text(strings, name), info >> 4, info & 15, other & 3, section, value, size)


def _text(data: bytes, at: int) -> bytes:
    return data[at : data.index(b"\0", at)]


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
            if section.kind == _RELA and at in places[number]:
                here = places[number][at]
                data = b"".join(
                    _RELOCATION.pack(offset, numbers[number][info >> 32] << 32 | info & 0xFFFFFFFF, addend)
                    for offset, info, addend in _RELOCATION.iter_unpack(section.data)
                )
                sections[here] = replace(section, link=table, info=places[number][section.info], data=data)
    strings = _Strings()
    rows = b"".join(
        _SYMBOL.pack(strings.place(s.name), s.binding << 4 | s.kind, s.visibility, s.section, s.value, s.size)
        for s in symbols
    )
    local = sum(s.binding == _LOCAL for s in symbols)
    sections.append(_Section(b".symtab", _SYMTAB, 0, table + 1, local, 8, _SYMBOL.size, len(rows), rows))
    sections.append(_Section(b".strtab", _STRTAB, 0, 0, 0, 1, 0, len(strings.data), bytes(strings.data)))
    return _file(first, sections)


def _laid_out(objects: Sequence[_Object]) -> tuple[list[_Section], list[dict[int, int]]]:
    """The sections of all, but the tables that are made anew, and for each file where its sections are now."""
    sections = [_Section(b"", _NULL, 0, 0, 0, 0, 0, 0, b"")]
    places: list[dict[int, int]] = []
    for number, o in enumerate(objects):
        place = {_UNDEFINED: _UNDEFINED}
        for at, section in enumerate(o.sections):
            made_anew = section.kind in (_NULL, _SYMTAB, _STRTAB, _ADDRSIG)
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
    rows: list[bytes] = []
    data = bytearray(_HEADER.size)
    for section in [*sections, _Section(b".shstrtab", _STRTAB, 0, 0, 0, 1, 0, 0, b"")]:
        name = names.place(section.name)
        content = bytes(names.data) if section.name == b".shstrtab" else section.data
        data += bytes(-len(data) % max(1, section.align))
        size = section.size if section.kind == _NOBITS else len(content)
        place = (0, len(data) if section.kind else 0, size)
        rest = (section.link, section.info, section.align, section.entry)
        rows.append(_SECTION.pack(name, section.kind, section.flags, *place, *rest))
        data += content
    data += bytes(-len(data) % 8)
    table = len(data)
    data += b"".join(rows)
    head = (like.identity, 1, like.machine, 1, 0, 0, table, like.flags, _HEADER.size, 0, 0, _SECTION.size)
    _HEADER.pack_into(data, 0, *head, len(rows), len(rows) - 1)
    return bytes(data)
