"""Runs Triton's own unit tests on the CPU backend, from a checkout that you have, and writes docs/conformance.md.

    git clone https://github.com/triton-lang/triton && git -C triton checkout release/3.7.x
    python tools/conformance.py triton --workers 2

The checkout must be of the Triton that is installed: the tests follow the language. They need torch, scipy, pytest and
expecttest. None of their code is in this repository. A test runs in a process that it shares with its neighbours; when
the process dies or a test takes too long, that test alone counts as failed and a new process goes on behind it.

    --only test_core.py runtime             some files, by any part of their path
    -k EXPR                                 as pytest's
    --interpreter-marked                    only what upstream marks for its interpreter
    --every 20                              every 20th case of each test function: a sample
    --records FILE                          keep every outcome there; cases that it has already are not run again
    --page PATH                             where to write the page ("-": to the terminal only)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance_table import GPU_ONLY, NO_SUCH_STAGE, REFUSED, REMAINING, SAMPLED

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "conformance.md"
FOLDERS = (".", "language", "runtime")
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
    """Cases that share a process as long as it lives."""

    pending: list[str]
    results: dict[str, Result] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A checkout, and where this run keeps its files."""

    tests: Path
    scratch: Path
    limit: float

    def command(self, paths: list[str], *extra: str) -> list[str]:
        """Pytest on files of the checkout, deaf to whatever configuration surrounds it."""
        options = ("-c", os.devnull, "--rootdir", str(self.tests), "--confcutdir", str(self.tests))
        quiet = ("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "conformance_plugin", "--device=cpu")
        return [sys.executable, "-m", "pytest", *options, *quiet, *extra, *(str(self.tests / path) for path in paths)]

    def environment(self, records: Path, selected: Path | None = None) -> dict[str, str]:
        """The plugin on the path, and its files."""
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        more = {"PYTHONPATH": os.pathsep.join(paths), "CONFORMANCE_RECORDS": str(records)}
        if selected:
            more["CONFORMANCE_SELECTED"] = str(selected)
        return {**os.environ, "TRITON_DEFAULT_BACKEND": "cpu", **more}


def collect(
    place: Place, paths: list[str], expression: str, marked: bool, every: int
) -> tuple[list[str], dict[str, Result], set[str]]:
    """The cases that are to run, what can be said of the others, and those that upstream marks for its interpreter."""
    records = place.scratch / "collected.jsonl"
    extra = ["--collect-only", "--continue-on-collection-errors"]
    extra += (["-k", expression] if expression else []) + (["-m", "interpreter"] if marked else [])
    done = subprocess.run(
        place.command(paths, *extra),
        env=place.environment(records),
        capture_output=True,
        text=True,
        cwd=place.scratch,
        check=False,
    )
    lines = read(records)
    if not any("collected" in line for line in lines):
        sys.exit(f"pytest could not collect the tests:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    known = {
        line["uncollected"]: Result("failed", "cannot be imported", line["text"])
        for line in lines
        if line.get("uncollected") in paths
    }
    seen: Counter[str] = Counter()
    chosen = []
    for case in (case for line in lines for case in line.get("collected", ())):
        function = case.split("[")[0]
        seen[function] += 1
        step = every if every > 1 else next((step for pattern, step in SAMPLED if re.search(pattern, function)), 1)
        if not os.environ.get("CONFORMANCE_WHOLE") and (seen[function] - 1) % step:
            continue
        if reason := first_match(GPU_ONLY, case):
            known[case] = Result("not applicable", reason)
        else:
            chosen.append(case)
    return chosen, known, {case for line in lines for case in line.get("marked", ())}


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
        paths = list(dict.fromkeys(file_of(case) for case in batch.pending))
        with open(stem.with_suffix(".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                place.command(paths),
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
        happened = f"{case}\n{result.error}"
        if reason := first_match(NO_SUCH_STAGE, happened):
            return Result("not applicable", reason, result.text)
        if reason := first_match(REFUSED, happened):
            return Result("refused", reason, result.text)
    return result


def time_spent(started: float, workers: int) -> str:
    """What a run from start to end took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes, processor = (time.monotonic() - started) / 60, (used.ru_utime + used.ru_stime) / 60
    return f" The run took {minutes:.0f} minutes with {workers} workers, {processor:.0f} minutes of processor time."


def page(version: str, revision: str, every: int, results: dict[str, Result], marked: set[str], spent: str) -> str:
    """The page: a table of files, then every reason."""
    ending = {2: "nd", 3: "rd"}.get(every, "th")
    sample = f" A sample: every {every}{ending} case of each test function." if every > 1 else ""
    lines = [
        "# Conformance with Triton's own tests",
        "",
        f"Written by `tools/conformance.py`: Triton {version}, tests of upstream commit {revision}, device `cpu`, compiled.",
        "Refused: the backend says by design that it does not compile the kernel. Not applicable: skipped by the test",
        "itself on this device, or a test of what only a GPU has. `test_matmul.py` is a sample, every 50th of its 5,500 cases, and",
        "`test_typeconvert_downcast` goes through every 17th of its 256 blocks of 2^24 values; `CONFORMANCE_WHOLE=1` runs all."
        + spent
        + sample,
        "",
        "Again: `python tools/conformance.py TRITON_CHECKOUT`, with a checkout of that commit; it needs torch, scipy, pytest and",
        "expecttest. A test that names CUDA's memory gets the CPU's; `tools/conformance_plugin.py` has all that is done to the",
        "tests' surroundings, `tools/conformance_table.py` the reasons.",
        "",
        "| file | passed | failed | refused | not applicable |",
        "|---|---|---|---|---|",
    ]
    files: dict[str, Counter[str]] = defaultdict(Counter)
    for case, result in results.items():
        files[file_of(case)][result.kind] += 1
    lines += [f"| {path.removeprefix('unit/')} {row(counts)}" for path, counts in sorted(files.items())]
    lines.append(f"| **all** {row(sum(files.values(), Counter()))}")
    of_marked = Counter(result.kind for case, result in results.items() if case in marked)
    lines.append(f"| **of these, marked for the interpreter** {row(of_marked)}")
    for kind, title in (("failed", "Failed"), ("refused", "Refused"), ("not applicable", "Not applicable")):
        lines += ["", f"## {title}", "", "| cases | test | reason |", "|---|---|---|"]
        groups = Counter(
            (case.split("[")[0].removeprefix("unit/"), reason_of(case, result))
            for case, result in results.items()
            if result.kind == kind
        )
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
    parser.add_argument("--records", type=Path, help="JSON lines of every outcome; what is in it is not run")
    return parser.parse_args()


def file_of(case: str) -> str:
    """The file of a node id."""
    return case.split("::", maxsplit=1)[0]


def tell(outcome: dict[str, Result], records: Path | None) -> None:
    """Progress to the terminal, and every outcome, as pytest has it, to a file where one was asked for."""
    for path in dict.fromkeys(map(file_of, outcome)):
        print(path, dict(Counter(result.kind for case, result in outcome.items() if file_of(case) == path)), flush=True)
    for case, result in outcome.items():
        if result.kind == "failed":
            print(f"  {case}: {result.error.splitlines()[0][:200] if result.error else ''}", flush=True)
        if records:
            with open(records, "a", encoding="utf-8") as file:
                file.write(json.dumps({"case": case, **vars(result)}) + "\n")


def earlier(records: Path | None, cases: list[str]) -> dict[str, Result]:
    """Outcomes of these cases that an earlier run wrote down; the last one counts."""
    if not records:
        return {}
    wanted = set(cases)
    return {
        line["case"]: Result(line["kind"], line["error"], line["text"], line["seconds"])
        for line in read(records)
        if line["case"] in wanted
    }


def main() -> int:
    """Run, write the page, return 1 where something failed."""
    import triton

    started = time.monotonic()
    options = arguments()
    tests = (options.checkout / "python" / "test").resolve()
    if not tests.is_dir():
        print(f"{options.checkout}: no python/test in it; expected a checkout of Triton {triton.__version__}")
        return 2
    found = sorted(path for folder in FOLDERS for path in (tests / "unit" / folder).glob("test_*.py"))
    paths = [str(path.relative_to(tests)) for path in found if any(part in str(path) for part in options.only)]
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch, ThreadPoolExecutor(options.workers) as pool:
        place = Place(tests, Path(scratch), options.limit)
        cases, known, marked = collect(place, paths, options.expression, options.interpreter_marked, options.every)
        before = earlier(options.records, cases)
        results = {case: classify(case, result) for case, result in (known | before).items()}
        cases = [case for case in cases if case not in results]
        batches = [Batch(cases[at : at + CHUNK]) for at in range(0, len(cases), CHUNK)]
        for batch in pool.map(
            lambda numbered: run_batch(place, numbered[1], f"batch{numbered[0]}"), enumerate(batches)
        ):
            tell(batch.results, options.records)
            results |= {case: classify(case, result) for case, result in batch.results.items()}
    spent = "" if before else time_spent(started, options.workers)
    revision = options.revision or revision_of(options.checkout)
    text = page(triton.__version__, revision, options.every, results, marked, spent)
    print(text) if options.page == "-" else Path(options.page).write_text(text, encoding="utf-8")
    return int(any(result.kind == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
