"""Compares very many random programs: `python tests/random_programs/many.py FIRST COUNT [--workers N] [--seconds S]`.

Every worker draws, runs and compares programs of its own seeds; what differs is printed with its seed, for `shrink.py`.
The last line says how many agreed. The exit status is 1 where one did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
from program_comparison import differences, options_of, run_compiled, run_reference
from random_programs import draw

from omnikernel import pipeline
from omnikernel.passes.clip import clip
from omnikernel.passes.contract import contract
from omnikernel.ttir import parse

BATCH = 25


def compare(seed: int) -> str | None:
    """None where compiled code and reference agree, else what differs."""
    program, options = draw(seed), options_of(seed)
    kernel = clip(parse(program.text))
    try:
        want = run_reference(contract(kernel) if options.fp_fusion else kernel, program)
        found = differences(want, run_compiled(pipeline.compile_text(program.text, options), program))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    return found[0] if found else None


def batch(seeds: Sequence[int], until: float) -> tuple[int, list[str]]:
    """How many programs were compared, and a line for each that differs."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    done, faults = 0, []
    for seed in seeds:
        if time.time() > until:
            break
        done += 1
        fault = compare(seed)
        if fault:
            faults.append(f"seed {seed}: {fault}")
    return done, faults


def results(batches: Sequence[range], until: float, workers: int) -> Iterator[tuple[int, list[str]]]:
    """What each batch gives. Where a process dies, the batches that it took along run again, each seed by itself."""
    left = list(batches)
    with ProcessPoolExecutor(workers) as pool:
        work = [(seeds, pool.submit(batch, seeds, until)) for seeds in batches]
        try:
            for seeds, future in work:
                yield future.result()
                left.remove(seeds)
        except BrokenProcessPool:
            pass
    if left and len(left) < len(batches):
        for seeds in left[: 2 * workers]:
            for seed in seeds:
                yield alone(seed, until)
        yield from results(left[2 * workers :], until, workers)
    elif left:
        for seeds in left:
            for seed in seeds:
                yield alone(seed, until)


def alone(seed: int, until: float) -> tuple[int, list[str]]:
    """One seed in a process of its own."""
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(batch, [seed], until).result()
        except BrokenProcessPool:
            return 1, [f"seed {seed}: the process died"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    args = parser.parse_args()
    until = time.time() + args.seconds
    last = args.first + args.count
    total, failed = 0, 0
    batches = [range(low, min(low + BATCH, last)) for low in range(args.first, last, BATCH)]
    for done, faults in results(batches, until, args.workers):
        total += done
        failed += len(faults)
        for fault in faults:
            print(fault, flush=True)
    print(f"{total - failed} passed, {failed} failed (seeds from {args.first})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
