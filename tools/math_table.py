"""Writes docs/math-accuracy.md from the table of math functions.

python tools/math_table.py            # writes the page
python tools/math_table.py --check    # fails where the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from omnikernel.lower.math import MATH, Row

PAGE = Path(__file__).resolve().parent.parent / "docs" / "math-accuracy.md"
HEAD = """# How accurate the math functions are

Written by `tools/math_table.py` from the table in `omnikernel/lower/math.py`; `tests/ops/test_math.py` sweeps each
function on every instruction set within the bound given here.

The bound is the largest distance from the exact value, in units in the last place of the result. `exact` means that the
result is the exact value, or the correctly rounded one. Subnormal results count like all others: nothing is flushed to
zero. f16 and bf16 are computed in f32 and rounded once. Functions of NaN, infinities and signed zeros follow C.

| function | f32 | f64 | integers | method |
|---|---|---|---|---|
"""


def bound(row: Row, kind: str) -> str:
    """A cell: the bound of a type, or a dash where the function does not take it."""
    if kind not in row.emit:
        return "-"
    return "exact" if row.ulp[kind] <= 0.5 else f"{row.ulp[kind]:g}"


def line(row: Row) -> str:
    integers = " ".join(kind for kind in ("i32", "i64") if kind in row.emit) or "-"
    return f"| `{row.name}` | {bound(row, 'f32')} | {bound(row, 'f64')} | {integers} | {row.source} |"


def page() -> str:
    return HEAD + "\n".join(line(MATH[name]) for name in sorted(MATH)) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE.name} is out of date: run python tools/math_table.py", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
