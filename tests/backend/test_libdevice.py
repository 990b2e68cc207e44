"""libdevice: every name of Triton's stub, with NVIDIA's signatures, and f16 and bf16 besides."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import triton

from omnikernel.backend import libdevice

Run = Callable[..., str]
EXTRA = Path(triton.__file__).parent / "language" / "extra"


def _functions(path: Path) -> dict[str, dict[tuple[str, ...], tuple[str, str]]]:
    """Name -> signatures, read from the source of a libdevice module of Triton's."""
    found: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {}
    for function in ast.parse(path.read_text()).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        rows = found.setdefault(function.name, {})
        for node in ast.walk(function):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    arguments = tuple(each.args[0].value for each in key.elts)
                    rows[arguments] = (value.elts[0].value, value.elts[1].args[0].value)
    return found


def test_every_name_of_the_stub_is_there() -> None:
    stub = _functions(EXTRA / "libdevice.py")
    assert stub.keys() == libdevice.TABLE.keys()
    assert all(callable(getattr(libdevice, name)) for name in stub)


def test_signatures_are_nvidias() -> None:
    for name, rows in _functions(EXTRA / "cuda" / "libdevice.py").items():
        assert libdevice.TABLE[name] == rows, name


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("tanh", ("fp32",), ("fp32",)),
        ("tanh", ("fp16",), ("fp32",)),
        ("tanh", ("bf16",), ("fp32",)),
        ("atan2", ("fp16", "fp64"), ("fp64", "fp64")),
        ("pow", ("bf16", "int32"), ("fp32", "int32")),
        ("clz", ("int64",), ("int64",)),
    ],
)
def test_choice_of_signature(name: str, given: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    assert libdevice.chosen(name, given) == wanted


def test_no_signature_fits() -> None:
    with pytest.raises(TypeError, match=r"libdevice.tanh takes \(fp32\), \(fp64\); .* Got \(int32\)"):
        libdevice.chosen("tanh", ("int32",))


KERNELS = """
    import triton, triton.language as tl
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as cuda
    from triton.language.extra.cuda.libdevice import erf

    @triton.jit
    def kernel(p, r, N: tl.constexpr):
        x = tl.load(p + tl.arange(0, N))
        y = libdevice.tanh(x) + cuda.atan2(x, 2.0) + tl.extra.libdevice.pow(x, 3.0) + erf(x)
        tl.store(r + tl.arange(0, N), y)

    for dtype in (np.float32, np.float16, np.float64):
        kernel[(1,)](np.zeros(8, dtype), np.zeros(8, dtype), N=8)
    for text in COMPILED:
        print([symbol for symbol in ("tanh", "atan2", "pow", "erf") if f'"__nv_{symbol}f"' in text],
              [symbol for symbol in ("tanh", "atan2", "pow", "erf") if f'"__nv_{symbol}"' in text])
"""


def test_kernels_reach_it_by_every_name(python: Run) -> None:
    out = python(KERNELS, recorder=True).splitlines()
    all_four = "['tanh', 'atan2', 'pow', 'erf']"
    assert out == [f"{all_four} []", f"{all_four} []", f"[] {all_four}"]


def test_the_number_of_warps_is_refused(python: Run) -> None:
    out = python(
        """
    import triton, triton.language as tl
    from triton.language.extra.cuda import num_threads
    from triton.language.extra.cuda.libdevice import tanh

    @triton.jit
    def by_attribute(r):
        tl.store(r, tl.extra.cuda.num_warps())

    @triton.jit
    def by_name(r):
        tl.store(r, num_threads())

    @triton.jit
    def allowed(r):
        tl.store(r, tl.extra.cuda.libdevice.tanh(tl.load(r)) + tanh(1.0))

    for kernel in (by_attribute, by_name, allowed):
        try:
            kernel[(1,)](np.zeros(1, np.float32))
        except triton.CompilationError as error:
            print("has no meaning on the CPU" in str(error))
    print(len(COMPILED))
""",
        recorder=True,
    )
    assert out.split() == ["True", "True", "1"]
