"""Backend `cpu` of Triton's compiler: kernel source -> TTIR (Triton's front end and passes) -> packed object code.

Loaded in the middle of `import triton`, so at the top only `triton.backends` and `triton._C` may be imported; all
else, ours included, is imported where it is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from .options import CPUOptions, parse

if TYPE_CHECKING:
    from ..artefact import Artefact, Options

# Triton's own passes, run in this order where the release has them. Those of its GPU backends, and loop-invariant
# code motion besides, which GPUs leave to a later dialect.
_TTIR_PASSES = (
    ("common", "add_inliner"),
    ("ttir", "add_rewrite_tensor_pointer"),
    ("ttir", "add_rewrite_tensor_descriptor_to_pointer"),
    ("common", "add_canonicalizer"),
    ("ttir", "add_combine"),
    ("ttir", "add_reorder_broadcast"),
    ("common", "add_cse"),
    ("common", "add_licm"),
    ("common", "add_symbol_dce"),
    ("ttir", "add_loop_unroll"),
)
# Libraries divide by these to guess an occupancy, so none may be 0 although they mean nothing here.
_NOMINAL_SHARED = 1


def make_ttir(module: Any, metadata: dict[str, Any]) -> Any:
    """Run Triton's passes over a TTIR module, in place."""
    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    for family, name in _TTIR_PASSES:
        add = getattr(getattr(passes, family), name, None)
        if add is not None:
            add(manager)
    manager.run(module, "make_ttir")
    return module


def make_so(module: Any, metadata: dict[str, Any], options: CPUOptions) -> bytes:
    """Compile a TTIR module to object code, packed with what a launch must know.

    Raises:
        triton.compiler.errors.CompilationError: the kernel uses something that cannot be compiled for the CPU.
    """
    from ..artefact import Options
    from ..runtime.cache import pack
    from .failures import as_compilation_errors

    name = module.get_entry_func_name()
    metadata["name"] = name
    metadata["shared"] = _NOMINAL_SHARED
    # Arguments rarely overlap; the launcher compiles the conservative variant when they do.
    wanted = Options(fp_fusion=options.enable_fp_fusion, debug=options.debug, disjoint=True)
    with as_compilation_errors(name):
        return pack(_compiled(str(module), wanted))


def _compiled(text: str, options: Options) -> Artefact:
    """The artefact of a TTIR text, from our own cache where it is there.

    Triton's cache is keyed by source and every option, ours by the TTIR that comes of them: tuning configurations and
    edits that lead to the same TTIR cost no second compilation.
    """
    import triton

    from .. import config, pipeline
    from ..llvm import jit
    from ..runtime.cache import KernelCache, key

    cache = KernelCache(config.cache_dir())
    name = key(text, options, jit.host_target())
    artefact = cache.get(name)
    if artefact is None:
        artefact = pipeline.compile_text(text, options, version=triton.__version__)
        # A launcher compiles the other variant from the same text.
        artefact = replace(artefact, texts={"ttir": text, **artefact.texts})
        cache.put(name, artefact)
    return artefact


@functools.cache
def _fingerprint() -> str:
    """Everything besides a kernel and its options that object code depends on.

    Triton's cache key holds no target, so a cache folder shared by two machines is safe only with the processor here.
    """
    import triton

    from ..llvm import jit
    from ..llvm.revision import revision

    host = jit.host_target()
    features = ",".join(sorted(host.features))
    return f"omnikernel-{revision()}-triton-{triton.__version__}-llvm-{jit.llvm_version()}-{host.cpu}-{features}"


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """What Triton's compiler asks about the target `GPUTarget("cpu", "", 32)`."""

    binary_ext = "so"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "cpu")

    def hash(self) -> str:
        return _fingerprint()

    def parse_options(self, options: Mapping[str, Any]) -> CPUOptions:
        """Read compile options; see `options.parse`."""
        return parse(options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_target_name(self, options: CPUOptions) -> str:
        return "cpu"

    def get_codegen_implementation(self, options: CPUOptions) -> dict[str, Callable[..., Any]]:
        """The front end's questions: any dot shape is fine, and fp8 conversions are left to the lowering."""
        from .fp8e4b15 import convert

        return {"min_dot_size": _min_dot_size, "convert_custom_types": convert}

    def get_module_map(self) -> dict[str, ModuleType]:
        """Our math library under every name by which kernels reach NVIDIA's or AMD's, and what is for GPUs alone."""
        from . import gpu_only, libdevice

        libraries = {f"triton.language.extra.{place}libdevice": libdevice for place in ("", "cuda.", "hip.")}
        return libraries | dict.fromkeys(gpu_only.NAMES, gpu_only.module())

    def load_dialects(self, context: Any) -> None:
        """TTIR needs no dialect beyond Triton's own."""

    def add_stages(self, stages: dict[str, Callable[..., Any]], options: CPUOptions, language: Any = None) -> None:
        """Two stages; the last is named `so` because Inductor looks for it under that name.

        Raises:
            UnsupportedOp: the kernel is written in Gluon, which has no meaning without GPU layouts.
        """
        if language == getattr(Language, "GLUON", object()):
            from ..errors import UnsupportedOp
            from .failures import compilation_error

            raise compilation_error(UnsupportedOp)(
                "Gluon kernels describe GPU layouts and cannot be compiled for the CPU; write the kernel in Triton"
            )
        stages["ttir"] = make_ttir
        stages[_BinaryStage("so")] = functools.partial(make_so, options=options)


class _BinaryStage(str):
    """The name of a stage that makes a binary.

    Triton knows such stages by the names `cubin` and `hsaco`: it reads them as bytes and keeps them, and nothing else,
    under `TRITON_STORE_BINARY_ONLY`. So the name of ours equals one of these, too.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "hsaco" or str(self) == other

    __hash__ = str.__hash__


def _min_dot_size(lhs: Any, rhs: Any) -> tuple[int, int, int]:
    return 1, 1, 1
