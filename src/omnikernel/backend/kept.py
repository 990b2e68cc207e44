"""Small texts kept on disk from process to process, in the folder of the kernel cache."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from .. import config


def path(kind: str, key: str) -> str:
    """Where the text of a key is or would be."""
    return os.path.join(config.cache_dir(), kind, f"{key}.{kind}")


def read(path: str) -> str | None:
    """A text as it was written; None where there is none that can be trusted."""
    from ..runtime.cache import read_own

    try:
        digest, _, body = read_own(path).partition(b"\n")
    except OSError:
        return None
    return body.decode() if digest == hashlib.sha256(body).hexdigest().encode() else None


def write(path: str, text: str) -> None:
    """Keep a text. A folder that cannot be written keeps nothing: the kernel cache, in the same one, warns."""
    from ..runtime.cache import write_whole

    body = text.encode()
    with suppress(OSError):
        write_whole(Path(path), hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
