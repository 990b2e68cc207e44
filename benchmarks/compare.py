"""Two runs side by side: `python benchmarks/compare.py OLD.json NEW.json [--threshold 1.1]`.

A line a row and number of threads: our milliseconds in both, and their quotient. On a machine that does other things the
quotient of ratios to the same contender says more, so that is shown beside it. The exit status is 1 where a row became
slower than the threshold by both, or is missing or failed in the new run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One row in both runs. `time`: new / old milliseconds; `relative`: the same of the ratio to the contender `peer`."""

    name: str
    threads: int
    old_ms: float
    new_ms: float
    peer: str | None
    relative: float | None

    @property
    def time(self) -> float:
        return self.new_ms / self.old_ms

    def slower(self, threshold: float) -> bool:
        return self.time > threshold and (self.relative is None or self.relative > threshold)


def rows_of(run: Record) -> dict[tuple[str, int], Record]:
    return {(r["name"], r["threads"]): r for r in run["results"] if r["kind"] == "row"}


def compare(old: Record, new: Record) -> Iterator[Change]:
    """The rows that both runs have."""
    before, after = rows_of(old), rows_of(new)
    for key in before.keys() & after.keys():
        a, b = before[key], after[key]
        wanted = [goal[0] for goal in a["goals"]] + list(a["ratio"])
        peer = next((p for p in wanted if p in a["ratio"] and p in b["ratio"] and p != "interpreter"), None)
        relative = b["ratio"][peer] / a["ratio"][peer] if peer else None
        yield Change(*key, a["ms"]["ours"], b["ms"]["ours"], peer, relative)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--threshold", type=float, default=1.1, help="a row is slower beyond this (default 1.1)")
    options = parser.parse_args(arguments)
    old, new = json.loads(options.old.read_text()), json.loads(options.new.read_text())
    bad = 0
    print(f"{'row':44} {'threads':>7} {'old ms':>10} {'new ms':>10} {'new/old':>8}  against the same contender")
    for change in sorted(compare(old, new), key=lambda c: -c.time):
        slower = change.slower(options.threshold)
        bad += slower
        beside = f"{change.relative:.2f} of {change.peer}" if change.relative is not None else "-"
        print(
            f"{change.name:44} {change.threads:7} {change.old_ms:10.3f} {change.new_ms:10.3f} {change.time:8.2f}  "
            f"{beside}{'  SLOWER' if slower else ''}"
        )
    for name, threads in sorted(rows_of(old).keys() - rows_of(new).keys()):
        bad += 1
        print(f"{name:44} {threads:7} is missing in the new run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
