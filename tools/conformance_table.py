"""Reasons for `tools/conformance.py`: tables of (regular expression, reason), the first that is found counts.

GPU_ONLY is matched with a case's id, before it runs; REFUSED and NO_SUCH_STAGE with the id and the error of a case that
failed; REMAINING with the id of a case that failed and is known to.
"""

from __future__ import annotations

Rows = tuple[tuple[str, str], ...]

GPU_ONLY: Rows = (
    (r"test_compile_errors\.py::test_fp8_support\[dtype[1-9]", "expects that an unknown device has no fp8 but e5m2"),
    (r"test_core\.py::test_pointer_arguments", "asks that a GPU launch refuses CPU memory"),
    (
        r"test_mxfp8_mxfp4_matmul_tma\[\d+-\d+-\d+-\d+-8192-",
        "2^39 multiply-adds a case, minutes on a CPU; its smaller sizes run",
    ),
    (r"unit/test_perf_warning\.py::", "looks for remarks of a GPU pass pipeline"),
    (r"unit/test_link\.py::", "links GPU bitcode libraries; the kernels themselves run"),
    (r"test_reproducer\.py::", "looks for the reproducer of a GPU pass pipeline"),
    (
        r"test_subprocess\.py::test_print\[(device_print_scalar|no_arg_print|print_no_arg)-",
        "a GPU prints a scalar or a text once a thread, here once a program",
    ),
)

NO_SUCH_STAGE: Rows = (
    (r"KeyError: .Unknown key: '(ttgir|llir|ptx|sass|cubin|amdgcn)'", "inspects code of a GPU stage"),
)

# Files that run one kernel at very many sizes: how many cases of a test function one stands for.
SAMPLED: tuple[tuple[str, int], ...] = ((r"test_matmul\.py", 50),)

REFUSED: Rows = (
    (
        r"test_int_annotation\[False-1\]",
        "passes 3 for a parameter annotated as one bit: an error here, the low bit on a GPU",
    ),
    (r"tl\.extra\.cuda\.num_threads\(\) has no meaning", "a program is one thread: `num_threads` has no meaning"),
)

REMAINING: Rows = (
    (
        r"test_scaled_dot\[",
        "terms that cancel to less than 1/50,000 of the largest: f32 sums in torch's order and in ours differ by more than "
        "the test's 1 %, both within two f32 units in the last place of the largest term",
    ),
)
