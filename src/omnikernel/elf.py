"""What an ELF64 little-endian file says of its symbols and of the libraries that it needs (System V gABI, chapters 4, 5)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SYMBOLS, _DYNAMIC, _NEEDED = 2, 6, 1  # SHT_SYMTAB, SHT_DYNAMIC, DT_NEEDED


def undefined_symbols(data: bytes) -> Iterator[str]:
    """Names that an object needs from elsewhere; none where the data is no such file."""
    for start, size, names, each in _tables(data, _SYMBOLS):
        for at in range(start, start + size, each):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section == 0 and name:
                yield _text(data, names + name)


def needed_libraries(data: bytes) -> Iterator[str]:
    """The libraries that a shared object needs; none where the data is no such file."""
    for start, size, names, each in _tables(data, _DYNAMIC):
        for at in range(start, start + size, each):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag == _NEEDED:
                yield _text(data, names + value)


def _tables(data: bytes, wanted: int) -> Iterator[tuple[int, int, int, int]]:
    """The sections of a kind: where each begins, its size, where its names begin, and the size of an entry."""
    if data[:6] != b"\x7fELF\x02\x01":
        return
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for _, kind, _, _, start, length, link, _, _, each in sections:
        if kind == wanted:
            yield start, length, sections[link][4], each


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
