"""From TTIR text to object code: the stages in order, a line a stage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import config
from .artefact import Artefact, Options, Parameter
from .errors import UnsupportedOp
from .ir.printer import print_kernel
from .ir.tile import Kernel, Op, Value
from .ir.types import Pointer, Scalar
from .ir.verify import verify
from .llvm.jit import assembly, compile_object, host_target
from .lower.kernel import Together, lower_kernel
from .lower.lanes import Target
from .passes.alias import find_roots, written_and_read
from .passes.clip import clip
from .passes.contract import contract
from .passes.exchange import exchange, partners
from .passes.lockstep import Lockstep, lockstep
from .passes.merge import merge
from .passes.network import network
from .passes.order import may_wait, program_order
from .passes.schedule import schedule
from .passes.uncarry import uncarry
from .passes.unscale import unscale
from .ttir import parse

__all__ = ["Artefact", "Options", "Parameter", "compile_kernel", "compile_text"]


# In this order: sorts first, which shrink to an op and have nothing for the others.
PASSES: dict[str, Callable[[Kernel], Kernel]] = {
    "network": network,  # chains of compare-and-swaps become one op: a sort is a loop over its stages
    "exchange": exchange,  # partners of elements that are left need no reduction
    "partners": partners,  # and those near enough are shuffled
    "clip": clip,  # a clamp to -limit and limit gives the limit for NaN
    "contract": contract,  # a product and a sum become one fma, as on the GPU
    "uncarry": uncarry,  # loops carry numbers instead of tiles of pointers
    "merge": merge,  # neighbouring reductions share a nest
    "unscale": unscale,  # dots of micro-scaled operands become plain ones
}


def compile_text(ttir_text: str, options: Options, target: Target | None = None, *, version: str = "") -> Artefact:
    """Compile TTIR text for a machine (this one where target is None).

    Args:
        ttir_text: one module as Triton prints it; locations make better messages.
        options: what changes the code beyond the text.
        version: the Triton release that made the text, for messages.

    Raises:
        ParseError, UnsupportedOp: the text or an op in it is not known.
    """
    with uncollected():
        return compile_kernel(parse(ttir_text, version), options, target, ttir_text)


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's search for cyclic garbage waits meanwhile.

    A compile makes so many objects, all of them needed to its end, that the search goes through everything the process
    has, torch included: for nothing, and for a third of the time of compiling a sort of 65,536 elements.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()


def compile_kernel(
    kernel: Kernel, options: Options, target: Target | None = None, ttir_text: str | None = None
) -> Artefact:
    """Compile tile IR for a machine, stage by stage."""
    with uncollected():
        return _compiled(kernel, options, target or host_target(), ttir_text)


def _compiled(kernel: Kernel, options: Options, target: Target, ttir_text: str | None) -> Artefact:
    kernel = rewritten(kernel, options)
    roots = find_roots(kernel, options.disjoint)  # which argument each pointer comes from
    written, read = written_and_read(kernel, roots)
    schedules = {f.name: schedule(f, roots) for f in kernel.functions}  # which tiles are kept, and when
    order = program_order(kernel, roots)  # which axis of the grid runs fastest
    together = lockstep(kernel, roots, order[0])  # the kernel for several programs at once, where that gains
    lowered = lower_kernel(kernel, schedules, target, order, _scheduled(together, options))  # LLVM IR text
    data = compile_object(lowered.text, target)  # machine code
    texts = {"ttir": ttir_text or print_kernel(kernel), "llvm": lowered.text}
    artefact = Artefact(
        name=kernel.entry.name,
        object=data,
        parameters=tuple(Parameter(a.name, _parameter_type(a), a in read, a in written) for a in kernel.entry.args),
        arena_bytes=lowered.arena_bytes,
        asserts=lowered.asserts,
        cost=lowered.cost,
        in_order=may_wait(kernel),
        texts=texts,
        options=options,
    )
    write_dumps(artefact, kernel, target)
    return artefact


def rewritten(kernel: Kernel, options: Options) -> Kernel:
    """The kernel after all passes, verified after each that changed it."""
    checked: set[Op] = set()
    verify(kernel, "read", checked)
    for name, rewrite in PASSES.items():
        if name != "contract" or options.fp_fusion:
            changed = rewrite(kernel)
            if changed is not kernel:  # a pass that finds nothing to do returns the kernel itself
                verify(changed, name, checked)
            kernel = changed
    return kernel


def _scheduled(together: Lockstep | None, options: Options) -> Together | None:
    """The kernel for several programs at once with its own schedule."""
    if together is None:
        return None
    verify(together.kernel, "lockstep")
    roots = find_roots(together.kernel, options.disjoint)
    schedules = {f.name: schedule(f, roots) for f in together.kernel.functions}
    return Together(together.kernel, schedules, together.programs)


def _parameter_type(arg: Value) -> Pointer | Scalar:
    if not isinstance(arg.type, Pointer | Scalar):
        raise UnsupportedOp(f"{arg.loc}: parameter {arg.name} of type {arg.type} is not supported by the CPU backend")
    return arg.type


def tile_text(ttir_text: str, options: Options) -> str:
    """Tile IR after all passes, as it prints."""
    return print_kernel(rewritten(parse(ttir_text), options))


def write_dumps(artefact: Artefact, kernel: Kernel, target: Target) -> None:
    """Write the stages that `OMNIKERNEL_DUMP` names, each to a file of `OMNIKERNEL_DUMP_DIR` or to standard error.

    Args:
        artefact: of the compilation, with its texts.
        kernel: the tile IR that was lowered.
        target: the machine compiled for.
    """
    wanted = config.dump()
    if wanted is None or (wanted.kernel and wanted.kernel != artefact.name):
        return
    for number, (stage, suffix) in enumerate({"ttir": "mlir", "tile": "tile", "llvm": "ll", "asm": "s"}.items()):
        if stage not in wanted.stages:
            continue
        if stage == "asm":
            text = assembly(artefact.texts["llvm"], target)
        else:
            text = print_kernel(kernel) if stage == "tile" else artefact.texts[stage]
        if wanted.folder:
            wanted.folder.mkdir(parents=True, exist_ok=True)
            (wanted.folder / f"{artefact.name}.{number}-{stage}.{suffix}").write_text(text)
        else:
            print(f"--- {artefact.name}: {stage}\n{text}", file=sys.stderr)
