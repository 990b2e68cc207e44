"""Runs Triton's own unit tests on the CPU backend, from a checkout that you have, and writes docs/conformance.md.

    git clone https://github.com/triton-lang/triton && git -C triton checkout release/3.7.x
    python tools/conformance.py triton --workers 2

The checkout must be of the Triton that is installed: the tests follow the language. None of their code is in this
repository. A test runs in a process that it shares with its neighbours; when the process dies or a test takes too long,
that test alone counts as failed and a new process goes on behind it.

    --only test_core.py test_standard.py    some files, by the end of their path
    -k EXPR                                 as pytest's
    --interpreter-marked                    only what upstream marks for its interpreter
    --every 20                              every 20th case of each test function: a sample
    --page PATH                             where to write the page ("-": to the terminal only)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance_table import GPU_ONLY, REFUSED, REMAINING

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "conformance.md"
FILES = ("language", "runtime")
CHUNK = 400


@dataclass
class Result:
    """What became of one case."""

    kind: str
    error: str = ""
    text: str = ""
    seconds: float = 0.0


@dataclass
class Batch:
    """Cases of one file, and the processes that run them."""

    path: str
    pending: list[str]
    results: dict[str, Result] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A checkout, and where this run keeps its files."""

    tests: Path
    scratch: Path
    limit: float

    def command(self, path: str, *extra: str) -> list[str]:
        """Pytest on one file of the checkout, deaf to whatever configuration surrounds it."""
        options = ("-c", os.devnull, "--rootdir", str(self.tests), "--confcutdir", str(self.tests))
        quiet = ("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "conformance_plugin", "--device=cpu")
        return [sys.executable, "-m", "pytest", *options, *quiet, *extra, str(self.tests / path)]

    def environment(self, records: Path, selected: Path | None = None) -> dict[str, str]:
        """The plugin on the path, and its files."""
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        more = {"PYTHONPATH": os.pathsep.join(paths), "CONFORMANCE_RECORDS": str(records)}
        if selected:
            more["CONFORMANCE_SELECTED"] = str(selected)
        return {**os.environ, "TRITON_DEFAULT_BACKEND": "cpu", **more}


def collect(place: Place, path: str, expression: str, marked: bool, every: int) -> tuple[list[str], dict[str, Result]]:
    """The cases of one file that are to run, and what can be said without running."""
    records = place.scratch / f"collect-{path.replace('/', '-')}.jsonl"
    extra = ["--collect-only"] + (["-k", expression] if expression else [])
    extra += ["-m", "interpreter"] if marked else []
    done = subprocess.run(
        place.command(path, *extra),
        env=place.environment(records),
        capture_output=True,
        text=True,
        cwd=place.scratch,
        check=False,
    )
    lines = read(records)
    broken = [line for line in lines if "uncollected" in line]
    if broken or not lines:
        text = broken[0]["text"] if broken else done.stdout[-2000:] + done.stderr[-2000:]
        return [], {path: Result("failed", "cannot be imported", str(text))}
    cases = [case for line in lines if "collected" in line for case in line["collected"]]
    known: dict[str, Result] = {}
    seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        function = case.split("[")[0]
        seen[function] += 1
        if (seen[function] - 1) % every:
            continue
        reason = first_match(GPU_ONLY, case)
        if reason:
            known[case] = Result("not applicable", reason)
        else:
            chosen.append(case)
    return chosen, known


def read(records: Path) -> list[dict[str, Any]]:
    """The lines that a process has written so far; the last one may be cut off."""
    if not records.exists():
        return []
    lines = []
    for line in records.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return lines


def first_match(table: tuple[tuple[str, str], ...], text: str) -> str:
    """The reason in the first row whose pattern is found in a text, or nothing."""
    return next((reason for pattern, reason in table if re.search(pattern, text)), "")


def run_batch(place: Place, batch: Batch, name: str) -> Batch:
    """Run cases until each has a result, in as many processes as that takes."""
    attempt = 0
    while batch.pending:
        attempt += 1
        stem = place.scratch / f"{name}-{attempt}"
        records, selected = stem.with_suffix(".jsonl"), stem.with_suffix(".ids")
        selected.write_text("\n".join(batch.pending), encoding="utf-8")
        with open(stem.with_suffix(".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                place.command(batch.path),
                env=place.environment(records, selected),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=place.scratch,
                start_new_session=True,
            )
            running, late = watch(process, records, place.limit, batch)
        tail = stem.with_suffix(".log").read_text(encoding="utf-8", errors="replace")[-3000:]
        if running:
            error = f"longer than {place.limit:g} s" if late else f"the process died (status {process.returncode})"
            batch.results[running] = Result("failed", error, tail)
        elif not any(case in batch.results for case in batch.pending):
            for case in batch.pending:
                batch.results[case] = Result("failed", "did not run", tail)
        batch.pending = [case for case in batch.pending if case not in batch.results]
    return batch


def watch(process: subprocess.Popen[bytes], records: Path, limit: float, batch: Batch) -> tuple[str, bool]:
    """Follow a process to its end.

    Returns:
        The case in which it died or was killed, or nothing, and whether that case took too long.
    """
    import signal

    read_lines, running, since = 0, "", time.monotonic()
    while True:
        ended = process.poll() is not None
        lines = read(records)
        for line in lines[read_lines:]:
            if "start" in line:
                running, since = str(line["start"]), time.monotonic()
            elif "end" in line:
                took = time.monotonic() - since
                kind, error, text = (str(line[key]) for key in ("kind", "error", "text"))
                batch.results[str(line["end"])] = Result(kind, error, text, took)
                running, since = "", time.monotonic()
        read_lines = len(lines)
        if ended:
            return running, False
        if time.monotonic() - since > (limit if running else 4 * limit):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return running, True
        time.sleep(0.25)


def classify(case: str, result: Result) -> Result:
    """Upstream's outcome in the page's terms."""
    if result.kind in ("skipped", "xfailed"):
        return Result("not applicable", result.error.removeprefix("Skipped: ") or "skipped", result.text)
    if result.kind == "failed":
        reason = first_match(REFUSED, f"{case}\n{result.error}")
        if reason:
            return Result("refused", reason, result.text)
    return result


def page(version: str, revision: str, every: int, results: dict[str, dict[str, Result]]) -> str:
    """The page: a table of files, then every reason."""
    sample = f" A sample: every {every}th case of each test function." if every > 1 else ""
    lines = [
        "# Conformance with Triton's own tests",
        "",
        f"Written by `tools/conformance.py`: Triton {version}, tests of upstream commit {revision}, device `cpu`, compiled.",
        "Refused: the backend says by design that it does not compile the kernel. Not applicable: skipped by the test",
        "itself on this device, or a test of what only a GPU has." + sample,
        "",
        "| file | passed | failed | refused | not applicable |",
        "|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for path, cases in results.items():
        counts = Counter(result.kind for result in cases.values())
        total += counts
        lines.append(f"| {path.removeprefix('unit/')} {row(counts)}")
    lines.append(f"| **all** {row(total)}")
    for kind, title in (("failed", "Failed"), ("refused", "Refused"), ("not applicable", "Not applicable")):
        lines += ["", f"## {title}", "", "| cases | test | reason |", "|---|---|---|"]
        groups: dict[tuple[str, str], int] = defaultdict(int)
        for cases in results.values():
            for case, result in cases.items():
                if result.kind == kind:
                    groups[case.split("[")[0].removeprefix("unit/"), reason_of(case, result)] += 1
        lines += [f"| {count} | `{test}` | {reason} |" for (test, reason), count in sorted(groups.items())]
    return "\n".join(lines) + "\n"


def row(counts: Counter[str]) -> str:
    """The cells of a table row after its name."""
    return "| " + " | ".join(str(counts[kind]) for kind in ("passed", "failed", "refused", "not applicable")) + " |"


def reason_of(case: str, result: Result) -> str:
    """One line for the page."""
    known = first_match(REMAINING, case) if result.kind == "failed" else ""
    text = known or next((line for line in result.error.splitlines() if line.strip()), "no message")
    text = re.sub(r"(/[\w.+-]+){2,}", "...", text)
    return text.replace("|", "\\|")[:200]


def revision_of(checkout: Path) -> str:
    """The commit of the checkout, where git knows it."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs Triton's own unit tests on the CPU backend.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("-k", dest="expression", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--interpreter-marked", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one case")
    parser.add_argument("--revision", default="", help="upstream commit, where the checkout is not a git repository")
    parser.add_argument("--page", default=str(PAGE))
    parser.add_argument("--records", type=Path, help="write every case's outcome to this JSON lines file")
    return parser.parse_args()


def main() -> int:
    """Run, write the page, return 1 where something failed."""
    import triton

    options = arguments()
    tests = (options.checkout / "python" / "test").resolve()
    if not tests.is_dir():
        print(f"{options.checkout}: no python/test in it; expected a checkout of Triton {triton.__version__}")
        return 2
    found = sorted(path for folder in FILES for path in (tests / "unit" / folder).glob("test_*.py"))
    paths = [str(path.relative_to(tests)) for path in found if str(path).endswith(tuple(options.only))]
    results: dict[str, dict[str, Result]] = {path: {} for path in paths}
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        place = Place(tests, Path(scratch), options.limit)
        batches = []
        collected = pool.map(
            lambda path: collect(place, path, options.expression, options.interpreter_marked, options.every), paths
        )
        for path, (chosen, known) in zip(paths, collected, strict=True):
            results[path].update(known)
            batches += [Batch(path, chosen[at : at + CHUNK]) for at in range(0, len(chosen), CHUNK)]
        for batch in pool.map(
            lambda numbered: run_batch(place, numbered[1], f"batch{numbered[0]}"), enumerate(batches)
        ):
            outcome = {case: classify(case, result) for case, result in batch.results.items()}
            results[batch.path].update(outcome)
            counts = Counter(result.kind for result in outcome.values())
            print(batch.path, dict(counts), flush=True)
            for case, result in outcome.items():
                if result.kind == "failed":
                    print(f"  {case}: {result.error.splitlines()[0][:200] if result.error else ''}", flush=True)
                if options.records:
                    with open(options.records, "a", encoding="utf-8") as file:
                        file.write(json.dumps({"case": case, **vars(result)}) + "\n")
    text = page(triton.__version__, options.revision or revision_of(options.checkout), options.every, results)
    print(text) if options.page == "-" else Path(options.page).write_text(text, encoding="utf-8")
    return int(any(result.kind == "failed" for cases in results.values() for result in cases.values()))


if __name__ == "__main__":
    sys.exit(main())
