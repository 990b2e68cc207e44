"""Ours against torch eager, torch.compile, NumPy and Triton's interpreter.  `make bench` runs this.

    python benchmarks/run.py [--only NAME ...] [--quick] [--threads 1 2] [--rounds N] [--no-compile] [--no-interpreter]
                             [--sweep] [--out FOLDER]

For each number of threads one process holds all contenders, with every library's own pool set to that number, and
they take turns (see measure.py). Triton's interpreter is the exception: it is a mode of the whole process, so it runs
in another, on smaller inputs, and is scaled by the work. Every row is checked against float64 before it is timed, and is
measured with the block sizes a GPU user writes and with those that `triton.autotune` chooses here ("tuned").

Results: tables here; JSON and plots in `benchmarks/results/`, where earlier runs stay under their date. Compare two with
`python benchmarks/compare.py OLD.json NEW.json`. A full run ends with time
against size; `--sweep` does nothing else. The last lines count the goals of all kinds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
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


def compiled_peer(row: Any, limit: float) -> Callable[[], object]:
    """What torch.compile makes of torch's own expression of the row; it may take `limit` seconds over it."""
    import torch

    def give_up(*_: object) -> None:
        raise TimeoutError(f"torch.compile took more than {limit:.0f} s")

    torch._dynamo.reset()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        call: Callable[[], object] = row.torch(lambda function: torch.compile(function, dynamic=False))
        call()
        return call
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def contenders(row: Any, options: argparse.Namespace) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """Everything that does the work of the row, by name; and why something is missing."""
    calls, reasons = dict(row.peers), {}
    if row.torch is not None and not row.no_eager and "torch" not in calls:
        calls["torch"] = row.torch(lambda function: function)
    if any(goal.peer == "torch.compile" for goal in row.goals) and not options.no_compile:  # it takes long to compile
        try:
            calls["torch.compile"] = compiled_peer(row, options.compile_limit)
        except Exception as error:
            reasons["torch.compile"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return calls, reasons


def checked(row: Any, call: Callable[[], object], want: Any) -> float:
    """The error of a call; raises where it is too large, since the time of a wrong result says nothing."""
    error: float = row.error(call, want)
    if not error <= row.tolerance:
        raise ArithmeticError(f"wrong result: error {error:.2g}, allowed {row.tolerance:.2g}")
    return error


def measure_row(row: Any, options: argparse.Namespace) -> Record:
    """Check, then time one row; a contender that cannot run is left out, with its reason in the record."""
    from measure import clock_for, interleaved
    from suite.row import words

    want = row.exact()
    ours = {"ours": row.call()}
    errors = {"ours": checked(row, ours["ours"], want)}
    chosen = row.tune()
    if any(constants != row.launches[i].typical for i, constants in chosen.items()):
        ours["tuned"] = row.call(chosen)
        errors["tuned"] = checked(row, ours["tuned"], want)
    del want
    peers, reasons = contenders(row, options)
    timings = interleaved({**ours, **peers}, options.rounds, clock_for(options.threads[0]))
    return {
        "kind": "row",
        "name": row.name,
        "ms": {name: t.seconds * 1e3 for name, t in timings.items()},
        "ratio": {name: timings["ours"].ratio(t) for name, t in timings.items() if name in peers},
        "ratio_tuned": {n: timings["tuned"].ratio(t) for n, t in timings.items() if n in peers and "tuned" in ours},
        "typical": words({i: launch.typical for i, launch in enumerate(row.launches)}),
        "chosen": words(chosen),
        "goals": [[goal.peer, goal.limit] for goal in row.goals],
        "error": errors,
        "flops": row.flops,
        "bytes": row.bytes,
        "bound": row.bound,
        "interpreted": row.interpreted,
        "work": row.work,
        "note": row.note,
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
        for name, make in cases.makers("quick" if options.quick else "full").items():
            if options.only and not any(wanted in name for wanted in options.only):
                continue
            say({"kind": "start", "name": name})
            try:
                say({"key": name, **measure_row(make(), options)})
            except Exception as error:
                say({"kind": "failed", "name": name, "why": f"{type(error).__name__}: {error}"})
        return
    import overheads

    for record in overheads.PARTS[options.part](options):
        say(record)


def start(options: argparse.Namespace, part: str, threads: int, **env: str) -> Iterator[Record]:
    """Run one part in a child process; its records, as they come."""
    pools = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, "--part", part, "--threads", str(threads), "--rounds", str(options.rounds)]
    command += ["--quick"] * options.quick + ["--no-compile"] * options.no_compile
    command += ["--compile-limit", str(options.compile_limit)]
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

    if options.sweep:
        keep(start(options, "sweep", options.threads[0]))
        return found
    for threads in options.threads:
        keep(start(options, "rows", threads))
    for part in ("compile", "families", "cached", "launch", "ceilings", "sweep"):
        if not options.only or part in options.only:
            keep(start(options, part, 1))
    if not options.only or "launch" in options.only:
        keep(start(options, "launch", 1, OMNIKERNEL_NO_NATIVE="1"))
    if options.only:
        return found
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
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="rows whose short name (see cases.py) holds one of these; or compile, families, cached, launch, ceilings, sweep",
    )
    parser.add_argument("--quick", action="store_true", help="small inputs: to see that it runs, not for figures")
    parser.add_argument("--threads", nargs="*", type=int, help="default: 1 and all")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument(
        "--compile-limit", type=float, default=120, help="seconds that torch.compile may take over a row"
    )
    parser.add_argument("--no-interpreter", action="store_true", help="without Triton's interpreter (so is --only)")
    parser.add_argument("--sweep", action="store_true", help="nothing but time against size")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--part", help=argparse.SUPPRESS)
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
    for path in report.write(found, machine(), options.out.resolve()):
        console.print(f"written: {path}", style="dim")
    return 1 if any(record["kind"] == "failed" for record in found) else 0


if __name__ == "__main__":
    sys.exit(main())
