"""Reasons for `tools/conformance.py`: tables of (regular expression, reason), the first that is found counts.

GPU_ONLY is matched with a case's id, before it runs; REFUSED with the id and the error of a case that failed;
REMAINING with the id of a case that failed and is known to.
"""

from __future__ import annotations

Rows = tuple[tuple[str, str], ...]

GPU_ONLY: Rows = ()

REFUSED: Rows = ()

REMAINING: Rows = ()
