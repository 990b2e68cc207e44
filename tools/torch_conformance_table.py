"""Reasons for `tools/torch_conformance.py`: tables of (regular expression, reason), the first that is found counts.

GPU_ONLY is matched with a case's id, before it runs; REFUSED and NOT_OURS with the id, the error and the traceback of a
case that failed. NOT_OURS are failures whose cause is in torch or in the test.
"""

from __future__ import annotations

Rows = tuple[tuple[str, str], ...]

GPU_ONLY: Rows = ((r"test_kernel_inline_asm", "inline assembly of a GPU"),)

REFUSED: Rows = ()

NOT_OURS: Rows = (
    (
        r"test_triton_kernel_mutates_expanded_intermediate_errors[\s\S]*RuntimeError not raised",
        "asks for an error that a later torch than this one raises",
    ),
    (
        r"test_triton_kernel_reinplace_inplaceable_pass[\s\S]*Tensor-likes are not close",
        "adds in place in a kernel that is measured without `restore_value`. Inductor measures it on the first launch, which "
        "is not in place; for CPU inputs, whose alignment it does not know, the second launch is a kernel of its own",
    ),
    (
        r"test_autotune_unbacked[\s\S]*kernels_. was not declared",
        "torch's C++ wrapper for programs that are not packaged names a variable that it does not declare, for any CPU kernel",
    ),
    (
        r"test_triton_kernel_caching\b[\s\S]*False is not true",
        "counts kernels: Inductor knows no alignment of CPU inputs, so launches on an input and on a buffer are two kernels",
    ),
    (
        r"test_triton_kernel_dtype_view_cfg_cpp_wrapper[\s\S]*autotune_at_compile_time is True",
        "torch wants `triton.autotune_at_compile_time` with its C++ wrapper on a CPU, which the test does not set",
    ),
)
