"""Ours against torch eager, torch.compile, NumPy and Triton's interpreter.  `make bench` runs this.

    python benchmarks/run.py [--only NAME ...] [--quick] [--threads 1 2] [--rounds N] [--no-compile] [--no-interpreter]

For each number of threads one process holds all contenders, with every library's own pool set to that number, and
they take turns (see measure.py). Triton's interpreter is the exception: it is a mode of the whole process, so it runs
in another, on smaller inputs, and is scaled by the work. Results: a table here; JSON and a plot in `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "examples"))

Record = dict[str, Any]


def compiled_peer(row: Any) -> Callable[[], object]:
    """What torch.compile makes of torch's own expression of the row."""
    import torch

    function = torch.compile(row.eager)
    function(*row.arguments)
    return lambda: function(*row.arguments)


def measure_row(row: Any, rounds: int, threads: int, with_compile: bool) -> Record:
    """Time one row; a contender that cannot run is left out, with its reason in the record."""
    from measure import clock_for, interleaved

    calls, reasons = {"ours": row.ours, **row.peers}, {}
    if with_compile and row.eager is not None:
        try:
            calls["torch.compile"] = compiled_peer(row)
        except Exception as error:
            reasons["torch.compile"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    timings = interleaved(calls, rounds, clock_for(threads))
    return {
        "kind": "row",
        "name": row.name,
        "ms": {name: t.seconds * 1e3 for name, t in timings.items()},
        "ratio": {name: t.ratio for name, t in timings.items() if name != "ours"},
        "goal": row.goal,
        "interpreted": row.interpreted,
        "work": row.work,
        "note": row.notes(),
        "left_out": reasons,
    }


def child(options: argparse.Namespace) -> None:
    """In a process of its own, for one number of threads: prints a line of JSON a result."""
    import omnikernel

    def say(record: Record) -> None:
        print(json.dumps({**record, "threads": threads}), flush=True)

    threads = options.threads[0]
    omnikernel.set_num_threads(threads)
    if options.part == "rows":
        import cases
        import torch

        torch.set_num_threads(threads)
        for name, make in cases.makers(options.quick).items():
            if options.only and not any(wanted in name for wanted in options.only):
                continue
            say({"kind": "start", "name": name})
            try:
                say(measure_row(make(), options.rounds, threads, not options.no_compile))
            except Exception as error:
                say({"kind": "failed", "name": name, "why": f"{type(error).__name__}: {error}"})
        return
    import overheads

    if options.part == "compile":
        for record in overheads.compile_rows(options.rounds):
            say({"kind": "compile", **record})
    else:
        for record in overheads.launch_rows(options.rounds):
            say({"kind": "launch", **record})


def start(options: argparse.Namespace, part: str, threads: int, **env: str) -> Iterator[Record]:
    """Run one part in a child process; its records, as they come."""
    pools = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, "--part", part, "--threads", str(threads), "--rounds", str(options.rounds)]
    command += ["--quick"] * options.quick + ["--no-compile"] * options.no_compile
    command += ["--only", *options.only] if options.only else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **pools, **env})
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)
    if process.wait():
        yield {"kind": "failed", "name": part, "threads": threads, "why": f"exit status {process.returncode}"}


def collect(options: argparse.Namespace, announce: Callable[[str], None]) -> list[Record]:
    """All measurements, in order."""
    found: list[Record] = []

    def keep(records: Iterator[Record]) -> None:
        for record in records:
            announce(f"{record['threads']} thread(s): {record['name']}")
            if record["kind"] != "start":
                found.append(record)

    for threads in options.threads:
        keep(start(options, "rows", threads))
    if not options.only or "compile" in options.only:
        keep(start(options, "compile", 1))
    if not options.only or "launch" in options.only:
        keep(start(options, "launch", 1))
        keep(start(options, "launch", 1, OMNIKERNEL_NO_NATIVE="1"))
    if not options.no_interpreter:
        import demo

        seconds = demo.interpreter_seconds(lambda name: announce(f"interpreter: {name}"))
        for record in found:
            if record.get("interpreted") in seconds:
                slow = seconds[record["interpreted"]] * record["work"] * 1e3
                record["ms"]["interpreter"] = slow
                record["ratio"]["interpreter"] = record["ms"]["ours"] / slow
    return found


def machine() -> Record:
    from omnikernel.info import facts

    return {"host": platform.machine(), "date": time.strftime("%Y-%m-%d"), **{f.name: f.found for f in facts()}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose name holds one of these; compile; launch")
    parser.add_argument("--quick", action="store_true", help="small inputs: to see that it runs, not for figures")
    parser.add_argument("--threads", nargs="*", type=int, help="default: 1 and all")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--no-interpreter", action="store_true")
    parser.add_argument("--part", choices=["rows", "compile", "launch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.threads = options.threads or sorted({1, len(os.sched_getaffinity(0))})
    if options.part:
        child(options)
        return 0
    import report
    from rich.console import Console

    console = Console()
    with console.status("measuring") as status:
        found = collect(options, lambda text: status.update(f"measuring, {text}"))
    report.print_tables(found, console)
    for path in report.write(found, machine(), HERE / "results"):
        console.print(f"written: {path.relative_to(HERE.parent)}", style="dim")
    return 1 if any(record["kind"] == "failed" for record in found) else 0


if __name__ == "__main__":
    sys.exit(main())
