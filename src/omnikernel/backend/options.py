"""The compile options of backend `cpu`: every field that Triton 3.6 to 3.9 and Inductor ask for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import OptionValueError

# Only these change the TTIR or the code made from it. `num_warps`, `num_stages` and their like do not, so
# configurations that differ in nothing else are compiled once.
_HASHED = (
    "allowed_dot_input_precisions",
    "debug",
    "default_dot_input_precision",
    "deprecated_fp8_dot_operand_dtypes",
    "enable_fp_fusion",
    "extern_libs",
    "ir_override",
    "max_num_imprecise_acc_default",
    "sanitize_overflow",
    "supported_fp8_dtypes",
)

# Options of GPU backends, of their forks and of older releases, that users pass in launches and configurations.
_GPU_ONLY = frozenset(
    (
        "allow_flush_denorm",
        "buffer_ops_assume_no_alias",
        "clc",
        "cluster_dims",
        "enable_reflect_ftz",
        "enable_warp_specialization",
        "kpack",
        "launch_cluster",
        "matrix_instr_nonkdim",
        "max_num_imprecise_acc",
        "min_shared_mem",
        "num_buffers_warp_spec",
        "num_consumer_groups",
        "ptx_options",
        "ptx_version",
        "reg_dec_producer",
        "reg_inc_consumer",
        "sched4reg",
        "schedule_hint",
        "threads_per_warp",
        "waves_per_eu",
    )
)


@dataclass(frozen=True)
class CPUOptions:
    """Options of one compilation. Not slotted: Triton reads `__dict__`.

    Fields that mean nothing on a CPU are kept, since Triton, Inductor and users' hooks read them.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    sanitize_overflow: bool = True
    backend_name: str = "cpu"
    arch: str = ""
    instrumentation_mode: str = ""
    ir_override: str | None = None

    def hash(self) -> str:
        """A digest of the options that change the generated code."""
        text = "_".join(f"{name}-{getattr(self, name)}" for name in _HASHED)
        return hashlib.sha256(text.encode()).hexdigest()


_FIELDS = frozenset(field.name for field in fields(CPUOptions))


def _injected(name: str) -> bool:
    """Triton passes some of its knobs with every launch, under the knob's own name; which ones differs by release."""
    from triton import knobs

    return hasattr(knobs.compilation, name)


def _fp_fusion(asked: bool | None) -> bool:
    """Whether multiply and add may become one fma: Triton's knobs decide where the launch does not say."""
    from triton import knobs

    if getattr(knobs.language, "force_disable_fp_fusion", False):
        return False
    return bool(knobs.language.default_fp_fusion if asked is None else asked)


def parse(given: Mapping[str, Any]) -> CPUOptions:
    """Make options of a launch's keyword arguments; those that are no options at all are left to the caller.

    Triton rejects a keyword that is neither a kernel argument nor an attribute of the result, so GPU-only options and
    injected knobs become plain attributes.
    """
    known = {name: given[name] for name in _FIELDS & given.keys() if given[name] is not None}
    known["enable_fp_fusion"] = _fp_fusion(known.get("enable_fp_fusion"))
    for name in ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "allowed_dot_input_precisions"):
        if name in known:
            known[name] = tuple(known[name])
    if libraries := known.pop("extern_libs", None):
        pairs = libraries.items() if isinstance(libraries, Mapping) else libraries
        known["extern_libs"] = tuple((name, path) for name, path in pairs)
    options = CPUOptions(**known)
    if options.num_warps < 1 or options.num_warps & (options.num_warps - 1):
        raise OptionValueError(f"num_warps must be a power of 2, got {options.num_warps}")
    for name in given.keys() - _FIELDS:
        if name in _GPU_ONLY or _injected(name):
            object.__setattr__(options, name, given[name])
    return options
