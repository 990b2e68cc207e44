"""From addresses in a checked library to the lines of the source.

In: the text of an error with addresses in braces, e.g. `{0x7f..}`. Out: the same text with `file:line`. Checked libraries hold
tables of lines; addr2line, which comes with the compiler, reads them. Without it the offset in the library is shown.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

_ADDRESS = re.compile(r"\{(0x[0-9a-f]+)\}")


class _Info(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def located(text: str, library: Path) -> str:
    """The text with every address turned into a place of the user's source."""
    if not _ADDRESS.search(text):
        return text
    return _ADDRESS.sub(lambda match: _place(int(match[1], 16), library), text)


def _place(address: int, library: Path) -> str:
    info = _Info()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    offset = address - (info.base or 0) - 1 if found else address  # a return address is that of the next instruction
    tool = shutil.which("addr2line")
    if tool is None:
        return f"offset {offset:#x} of {library.name}"
    command = [tool, "-i", "-e", str(library), hex(offset)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    for line in lines:  # the innermost first; those of our headers say nothing to the user
        file, _, number = line.split(" ")[0].rpartition(":")
        if file and not Path(file).name.startswith(("omnikernel", "entries", "??")):
            return f"{Path(file).name}:{number}"
    return f"offset {offset:#x} of {library.name}"
