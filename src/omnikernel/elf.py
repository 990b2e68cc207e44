"""What an ELF64 little-endian file says of its symbols and of the libraries that it needs (System V gABI, chapters 4, 5)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMTAB, DYNAMIC = 2, 6  # SHT_*
_NEEDED = 1  # DT_NEEDED


class Section(NamedTuple):
    """An entry of the section header table, field by field."""

    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def is_elf64(data: bytes) -> bool:
    """Whether this is an ELF64 little-endian file."""
    return data[:6] == b"\x7fELF\x02\x01"


def sections(data: bytes) -> list[Section]:
    """The section header table of such a file."""
    _, _, _, _, _, _, table, *_, count, _ = HEADER.unpack_from(data)
    return [Section(*SECTION.unpack_from(data, table + i * SECTION.size)) for i in range(count)]


def text(data: bytes, at: int) -> bytes:
    """An entry of a string table."""
    return data[at : data.index(b"\0", at)]


def undefined_symbols(data: bytes) -> Iterator[str]:
    """Names that an object needs from elsewhere; none where the data is no such file."""
    for table, names in _tables(data, SYMTAB):
        for at in range(table.start, table.start + table.size, table.entry):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section == 0 and name:
                yield text(data, names + name).decode()


def needed_libraries(data: bytes) -> Iterator[str]:
    """The libraries that a shared object needs; none where the data is no such file."""
    for table, names in _tables(data, DYNAMIC):
        for at in range(table.start, table.start + table.size, table.entry):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag == _NEEDED:
                yield text(data, names + value).decode()


def _tables(data: bytes, wanted: int) -> Iterator[tuple[Section, int]]:
    """The sections of a kind, and where the names begin that each refers to."""
    if is_elf64(data):
        found = sections(data)
        for section in found:
            if section.kind == wanted:
                yield section, found[section.link].start
