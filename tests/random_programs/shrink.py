"""Makes a failing random program small: `python tests/random_programs/shrink.py SEED` prints what is left of it.

An op is replaced by zeros, or left out where it makes nothing; what nothing uses any more goes with it. A change stays
if the program still fails in the same way. Each try runs in a child process, so a crash is one way to fail.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace

from program_comparison import differences, options_of, run_compiled, run_reference
from program_drawer import Program
from random_programs import draw

from omnikernel import pipeline
from omnikernel.ir.ops import SCHEMA
from omnikernel.ir.printer import print_kernel
from omnikernel.ir.tile import Block, Constant, Kernel, Op, Region, Value, walk
from omnikernel.ir.types import Pointer, element_of
from omnikernel.passes.clip import clip
from omnikernel.passes.contract import contract
from omnikernel.passes.rewrite import Rewriter
from omnikernel.ttir.parse import parse

SECONDS = 30


def failure(program: Program, options: pipeline.Options) -> str:
    """How a program fails: a difference, an error by its place, a crash; "" where it does not."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS)
        try:
            message = _compared(program, options)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__} at {os.path.basename(place.filename)}:{place.lineno}: {error}"
        os.write(write, message.encode()[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        message = pipe.read()
    _, status = os.waitpid(child, 0)
    return f"crash, status {status}" if status else message


def _compared(program: Program, options: pipeline.Options) -> str:
    kernel = clip(parse(program.text))
    want = run_reference(contract(kernel) if options.fp_fusion else kernel, program)
    found = differences(want, run_compiled(pipeline.compile_text(program.text, options), program))
    return "\n".join(["difference:", *found]) if found else ""


def manner(message: str) -> str:
    """What two failures of one cause have in common."""
    return message.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0][:60]


class _Without(Rewriter):
    """A function with one op replaced by zeros, or left out."""

    def __init__(self, target: Op) -> None:
        super().__init__()
        self.target = target

    def op(self, op: Op) -> list[Op]:
        if op is not self.target:
            return [self.rebuilt(op)]
        return [Op("arith.constant", (), (v,), {"value": Constant((0,), v.type)}) for v in op.results]


class _Dead(Rewriter):
    """A function without ops whose results nothing uses, where they have no other effect."""

    def __init__(self, used: set[Value]) -> None:
        super().__init__()
        self.used = used

    def op(self, op: Op) -> list[Op]:
        removable = op.results and (SCHEMA[op.name].pure or op.name == "tt.load" or _quiet(op))
        return [] if removable and not self.used.intersection(op.results) else [self.rebuilt(op)]


def _quiet(op: Op) -> bool:
    """A structured op without effects inside."""
    quiet = ("scf.yield", "scf.condition", "tt.reduce.return", "tt.load")
    inner = [o for region in op.regions for o in walk(region)]
    return bool(inner) and all(SCHEMA[o.name].pure or o.regions or o.name in quiet for o in inner)


def _used(region: Region) -> set[Value]:
    found: set[Value] = set()
    for op in walk(region):
        found.update(op.operands)
        for successor in op.successors:
            found.update(successor.operands)
    return found


def without_dead(kernel: Kernel) -> Kernel:
    """Take out dead ops until none is left."""
    while True:
        used = {v for f in kernel.functions for v in _used(f.body)}
        smaller = _Dead(used).kernel(kernel)
        if count(smaller) == count(kernel):
            return kernel
        kernel = smaller


def count(kernel: Kernel) -> int:
    return sum(1 for f in kernel.functions for _ in walk(f.body))


def candidates(kernel: Kernel) -> Iterator[Op]:
    """Ops that may go: the last first, as what they use then goes with them."""
    ops = [op for f in kernel.functions for op in walk(f.body)]
    kept = addresses(ops)
    for op in reversed(ops):
        if not SCHEMA[op.name].terminator and op.name != "arith.constant" and not kept.intersection(op.results):
            yield op


def addresses(ops: Sequence[Op]) -> set[Value]:
    """What addresses are made of. It stays as it is: a program must not come to write one place twice."""
    found = {v for op in ops for v in (*op.operands, *op.results) if isinstance(element_of(v.type), Pointer)}
    for op in reversed(ops):
        if found.intersection(op.results) and not op.regions:
            found.update(op.operands)
    return found


def inlined(kernel: Kernel) -> Iterator[Kernel]:
    """Kernels with an scf.if replaced by one of its branches."""
    for target in [op for op in walk(kernel.entry.body) if op.name == "scf.if"]:
        for region in target.regions:
            if region.blocks:
                yield _Inline(target, region.block).kernel(kernel)


class _Inline(_Without):
    def __init__(self, target: Op, block: Block) -> None:
        super().__init__(target)
        self.body = block

    def op(self, op: Op) -> list[Op]:
        if op is not self.target:
            return [self.rebuilt(op)]
        *work, last = self.body.ops
        made = [new for inner in work for new in self.op(inner)]
        self.renamed.update(zip(op.results, self.values(last.operands), strict=True))
        return made


def shrink(program: Program, options: pipeline.Options) -> tuple[Program, str]:
    """The smallest program found that fails as the given one does, and its failure."""
    message = failure(program, options)
    if not message:
        return program, ""
    kernel, found = parse(program.text), True
    while found:
        found = False
        trials = [(_Without(op).kernel(kernel)) for op in candidates(kernel)]
        for smaller in (*trials, *inlined(kernel)):
            trial = without_dead(smaller)
            if count(trial) >= count(kernel):
                continue
            attempt = replace(program, text=print_kernel(trial))
            said = failure(attempt, options)
            if said and manner(said) == manner(message):
                kernel, program, message, found = trial, attempt, said, True
                break
    return program, message


def main() -> None:
    for seed in map(int, sys.argv[1:]):
        program, message = shrink(draw(seed), options_of(seed))
        print(f"program {seed}, {options_of(seed)}, grid {program.grid}: {message or 'no failure'}")
        if message:
            print(program.text)


if __name__ == "__main__":
    main()
