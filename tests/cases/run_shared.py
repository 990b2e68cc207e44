"""Run the project's shared cases and compare the outcome with what is known not to work yet.

    python tests/cases/run_shared.py FOLDER [--prune]

FOLDER holds `cases/` (a script a behaviour) and `gpu_truth/` (results of a real GPU); either may be missing. A case
that fails must be listed in `expected_failures.txt` with a reason, and a listed one must fail. Exit status 1
otherwise. `--prune` takes those that pass off the list. The list's lines are `cases/NAME: reason` or `gpu_truth/NAME: reason`; `#` starts a comment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("expected_failures.txt")


def expected(text: str) -> dict[str, str]:
    """Name -> reason. Raises ValueError for a line without a reason."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, reason = line.partition(":")
        if not colon or not reason.strip():
            raise ValueError(f"{LIST.name}:{number}: a reason must follow the name: {line!r}")
        found[name.strip()] = reason.strip()
    return found


def run(command: list[str], folder: Path) -> list[str]:
    """The lines that a program prints, shown as they come."""
    child = subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        print(line, end="", flush=True)
        lines.append(line.rstrip())
    child.wait()
    if not any(re.fullmatch(r"\d+ passed, \d+ failed", line) for line in lines):
        sys.exit(f"{command[0]} ended without its count of passed and failed (exit status {child.returncode})")
    return lines


def failures(shared: Path) -> tuple[set[str], set[str]]:
    """What failed, and which of the two folders were there to run."""
    failed: set[str] = set()
    ran: set[str] = set()
    for folder, command in (("cases", ["run_all.py"]), ("gpu_truth", ["check.py", "--subprocess"])):
        if (shared / folder / command[0]).is_file():
            ran.add(folder)
            lines = run(command, shared / folder)
            failed |= {f"{folder}/{m[1]}" for line in lines if (m := re.match(r"FAIL ([\w.]+)", line))}
    return failed, ran


def prune(text: str, passing: set[str]) -> str:
    """The list without the lines of cases that pass."""
    return "".join(line for line in text.splitlines(True) if line.partition(":")[0].strip() not in passing)


def main() -> int:
    failed, ran = failures(Path(sys.argv[1]))
    known = {name: why for name, why in expected(LIST.read_text()).items() if name.split("/")[0] in ran}
    if "--prune" in sys.argv:
        LIST.write_text(prune(LIST.read_text(), known.keys() - failed))
        known = {name: why for name, why in known.items() if name in failed}
    for name in sorted(failed - known.keys()):
        print(f"UNEXPECTED FAILURE {name}")
    for name in sorted(known.keys() - failed):
        print(f"UNEXPECTED PASS {name}: take it off {LIST.name} ({known[name]})")
    print(f"shared cases: {len(failed)} failed, {len(known)} of them expected to")
    return 1 if failed != known.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
