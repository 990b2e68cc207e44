"""Caches of the whole run in a folder of its own, so that no test reads what an earlier run or another checkout left.

Set here, before anything imports Triton; processes that tests start inherit it. Each worker of `pytest -n` has its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_OWNER = os.getpid()
_FOLDER = tempfile.mkdtemp(prefix="omnikernel-tests-")


@atexit.register
def _remove() -> None:
    if os.getpid() == _OWNER:  # not in a child that a test forked
        shutil.rmtree(_FOLDER, ignore_errors=True)


os.environ["OMNIKERNEL_CACHE_DIR"] = os.path.join(_FOLDER, "omnikernel")
os.environ["TRITON_CACHE_DIR"] = os.path.join(_FOLDER, "triton")
