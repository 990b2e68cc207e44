"""`TRITON_INTERPRET=1`: arrays pass as they are, with torch and without; what must not be written is not."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

Run = Callable[..., str]
INTERPRET = {"TRITON_INTERPRET": "1"}

COPY = """
import numpy as np
import triton, triton.language as tl

@triton.jit
def copy(p, r, n, stride, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(r + i * stride, tl.load(p + i, mask=i < n), mask=i < n)

p = np.arange(1, 9, dtype=np.float32)
"""


@pytest.mark.parametrize("hide", [("torch",), ()])
def test_numpy_arrays(python: Run, hide: tuple[str, ...]) -> None:
    out = python(
        COPY
        + """
r = np.zeros((8, 3), np.float32)
copy[(2,)](p, r[:, 1], 8, 3, N=4)
print(r[:, 1].tolist(), r.sum())
back = np.zeros(8, np.float32)
copy[(2,)](p, back[::-1], np.int64(7), np.int32(-1), N=4)
print(back.tolist())
copy[(1,)](r=back, p=p, n=8, stride=1, N=8)
print(back.tolist() == p.tolist())
""",
        env=INTERPRET,
        hide=hide,
    )
    assert out.splitlines() == [
        "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] 36.0",
        "[0.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]",
        "True",
    ]


def test_grids(python: Run) -> None:
    out = python(
        COPY
        + """
for grid in ([2], 2, np.int64(2), (np.int32(2),), lambda meta: 2, lambda meta: [2]):
    r = np.zeros(8, np.float32)
    copy[grid](p, r, 8, 1, N=4)
    print(r.tolist() == p.tolist())
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.split() == ["True"] * 6


def test_dtypes_and_other_arrays(python: Run) -> None:
    out = python(
        """
import array
import ml_dtypes, numpy as np
import triton, triton.language as tl

@triton.jit
def move(p, r, N: tl.constexpr):
    tl.store(r + tl.arange(0, N), tl.load(p + tl.arange(0, N)))

kinds = ["bool", "int8", "uint16", "int64", "float16", "float64", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
for kind in kinds:
    p, r = np.array([0, 1, 0, 1], kind), np.zeros(4, kind)
    move[(1,)](p, r, N=4)
    print(kind, (r == p).all())
r = array.array("f", [0] * 4)
move[(1,)](memoryview(array.array("f", [1, 2, 3, 4])), r, N=4)
print("array", r.tolist() == [1, 2, 3, 4])

class Pointer:
    dtype = np.dtype("float32")
    array = np.zeros(4, np.float32)
    def data_ptr(self):
        return self.array.ctypes.data

move[(1,)](np.ones(4, np.float32), Pointer(), N=4)
print("pointer", Pointer.array.sum() == 4)
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert len(out.splitlines()) == 10
    assert all(line.endswith("True") for line in out.splitlines()), out


def test_tuples(python: Run) -> None:
    out = python(
        """
import numpy as np
import triton, triton.language as tl

@triton.jit
def mix(sources, weights, r, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(r + i, tl.load(sources[0] + i) * weights[0] + tl.load(sources[1] + i) * weights[1])

u, v, r = np.arange(4, dtype=np.float32), np.ones(4, np.float32), np.zeros(4, np.float32)
mix[(1,)]((u, v), (np.int64(2), 3), r, N=4)
print(r.tolist())
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.strip() == "[3.0, 5.0, 7.0, 9.0]"


def test_what_must_not_be_written(python: Run) -> None:
    out = python(
        COPY
        + """
frozen = np.zeros(8, np.float32)
frozen.flags.writeable = False
r = np.zeros(8, np.float32)
copy[(1,)](frozen, r, 8, 1, N=8)
try:
    copy[(1,)](p, frozen, 8, 1, N=8)
except ValueError as error:
    print(type(error).__name__, error)
copy[(1,)](p, frozen, 0, 1, N=8)  # masked off: nothing is written
view = r[:]
view.flags.writeable = False
copy[(1,)](view, r, 8, 1, N=8)
print(frozen.sum())

@triton.jit
def add(r):
    tl.atomic_add(r, 1.0)

try:
    add[(1,)](frozen)
except ValueError as error:
    print("atomic", frozen.sum())
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.splitlines() == [
        "ArgumentValueError kernel 'copy', parameter 'r': expected an array that the kernel can write, "
        "got a read-only numpy array; pass a writable copy",
        "0.0",
        "atomic 0.0",
    ]


def test_bad_arrays(python: Run) -> None:
    out = python(
        COPY
        + """
for bad in (p.astype(">f4"), p.astype(object), p.astype(complex)):
    try:
        copy[(1,)](bad, p, 8, 1, N=8)
    except TypeError as error:
        print(str(error).startswith("kernel 'copy', parameter 'p': expected an array"))
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.split() == ["True"] * 3


@pytest.mark.jax
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_jax_arrays_are_read_and_never_written(python: Run) -> None:
    out = python(
        COPY
        + """
import jax.numpy as jnp
j, r = jnp.arange(8, dtype=jnp.float32), np.zeros(8, np.float32)
copy[(1,)](j, r, 8, 1, N=8)
print(r.tolist() == j.tolist())
try:
    copy[(1,)](p, j, 8, 1, N=8)
except TypeError as error:
    print("a JAX array" in str(error), float(j.sum()))
""",
        env=INTERPRET,
    )
    assert out.splitlines() == ["True", "True 28.0"]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_torch_tensors_go_their_way(python: Run) -> None:
    out = python(
        COPY
        + """
import torch
t, r = torch.arange(8, dtype=torch.float32), torch.zeros(16)
copy[(1,)](t, r[1::2], 8, 2, N=8)
mixed = np.zeros(8, np.float32)
copy[(1,)](t, mixed, 8, 1, N=8)
print(r[1::2].tolist() == t.tolist() == mixed.tolist())
""",
        env=INTERPRET,
    )
    assert out.strip() == "True"


def test_autotune_needs_no_driver(python: Run) -> None:
    out = python(
        """
import numpy as np
import triton, triton.language as tl
from triton.runtime.driver import driver
type(driver).active = property(lambda self: 1 / 0)

@triton.autotune(configs=[triton.Config({"N": 32}), triton.Config({"N": 64})], key=["n"], reset_to_zero=["acc"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def collect(p, acc, n, N: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(acc, tl.sum(tl.load(p + i, mask=i < n, other=0.0), axis=0))

acc = np.zeros(1, np.float32)
collect[lambda meta: (triton.cdiv(128, meta["N"]),)](np.ones(128, np.float32), acc, 128)
print(acc[0])
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.strip() == "128.0"


def test_libdevice(python: Run) -> None:
    out = python(
        """
import math
import numpy as np
import triton, triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda

@triton.jit
def some(p, r, N: tl.constexpr):
    x = tl.load(p + tl.arange(0, N))
    tl.store(r + tl.arange(0, N), libdevice.asin(x) + cuda.atan2(x, 2.0) + libdevice.erf(x) + libdevice.round(x))

@triton.jit
def unknown(p, r, N: tl.constexpr):
    tl.store(r + tl.arange(0, N), libdevice.erfcx(tl.load(p + tl.arange(0, N))))

for kind, limit in ((np.float32, 1e-6), (np.float64, 1e-14), (np.float16, 4e-3)):
    p = np.linspace(-0.75, 0.75, 8).astype(kind)
    r = np.zeros(8, kind)
    some[(1,)](p, r, N=8)
    half_away = lambda x: math.copysign(math.floor(abs(x) + 0.5), x)
    want = [math.asin(x) + math.atan2(x, 2.0) + math.erf(x) + half_away(x) for x in p.tolist()]
    print(np.abs(r.astype(float) - want).max() < limit)
try:
    unknown[(1,)](p, r, N=8)
except Exception as error:
    print("extern_elementwise not supported" in str(error))
""",
        env=INTERPRET,
        hide=("torch",),
    )
    assert out.split() == ["True"] * 4
