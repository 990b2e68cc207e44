"""Caches of the whole run in a folder of its own, so that no test reads what an earlier run or another checkout left.

Set here, before anything imports Triton; processes that tests start inherit it. Each worker of `pytest -n` has its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_FOLDER = tempfile.mkdtemp(prefix="omnikernel-tests-")
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)
os.environ["OMNIKERNEL_CACHE_DIR"] = os.path.join(_FOLDER, "omnikernel")
os.environ["TRITON_CACHE_DIR"] = os.path.join(_FOLDER, "triton")
