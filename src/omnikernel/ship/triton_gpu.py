"""Triton kernels as cubins and PTX for NVIDIA GPUs, made by Triton's own compiler, without a GPU.

In: a form and an architecture like `sm_90`. Out: two files' contents and what a launch must know of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..cpp.toolchain import BuildError
from .gpu import capability_of
from .triton_cpu import Wanted

_WARP = 32
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug")


@dataclass(frozen=True, slots=True)
class GpuCode:
    """One form for one architecture. `about` is the manifest's entry, without the names of the files."""

    cubin: bytes
    ptx: bytes
    about: dict[str, Any]


def compile_form(wanted: Wanted, architecture: str) -> GpuCode:
    """Compile one form for one architecture.

    Raises:
        BuildError: it needs what a launch without Triton does not give.
        triton.compiler.errors.CompilationError: it does not compile.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    number = capability_of(architecture)
    names = list(wanted.kernel.arg_names)
    types, hints = {}, {}
    given = iter(wanted.signature)
    constants = dict(wanted.constants)
    for name in names:
        if name in constants:
            types[name] = "constexpr"
            continue
        kind, _, hint = next(given).partition(":")
        types[name] = kind
        if hint == "1":
            types[name], constants[name] = "constexpr", 1
        elif hint == "16":
            hints[(names.index(name),)] = [["tt.divisibility", 16]]
    source = ASTSource(wanted.kernel, types, {(names.index(n),): v for n, v in constants.items()}, hints)
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True  # it holds the paths of the machine that builds
        compiled = triton.compile(source, target=GPUTarget("cuda", number, _WARP), options=dict(wanted.options))
    return _code(wanted, architecture, number, compiled)


def _code(wanted: Wanted, architecture: str, number: int, compiled: Any) -> GpuCode:
    data, ptx = compiled.metadata, compiled.asm["ptx"]
    what = f"kernel {wanted.name!r} for {architecture}"
    for name in ("global_scratch_size", "launch_cooperative_grid", "launch_pdl"):
        if getattr(data, name, 0):
            raise BuildError(f"{what} needs {name}, which only Triton's own launcher gives; leave it out of the wheel")
    if getattr(data, "num_ctas", 1) != 1 or getattr(data, "tensordesc_meta", None):
        raise BuildError(f"{what} uses clusters or tensor descriptors; leave it out of the wheel")
    entry = re.search(r"\.visible\s+\.entry\s+\w+\s*\((.*?)\)", ptx, re.DOTALL)
    target = re.search(r"\.target\s+(sm_\d+)(\w?)", ptx)
    if entry is None or target is None:
        raise BuildError(f"{what}: Triton's PTX has no entry that could be read")
    scratch = entry[1].count(".param") - len(wanted.runtime)
    about = {
        "arch": number,
        "specific": bool(target[2]),
        "symbol": data.name,
        "shared": data.shared,
        "num_warps": data.num_warps,
        "scratch": scratch,
        "options": {name: getattr(data, name) for name in _OPTIONS if hasattr(data, name)},
        "key": compiled.hash,
    }
    return GpuCode(compiled.asm["cubin"], ptx.encode(), about)
