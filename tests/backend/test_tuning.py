"""`triton.autotune` on arrays that are not torch's, without torch. The kernels are stood in for by a recorder."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., str]

TUNED = """
import triton, triton.language as tl

def tuned(**more):
    configs = [triton.Config({"N": n}, num_warps=w) for n in (16, 32) for w in (1, 4)]
    @triton.autotune(configs=configs, key=["n"], **more)
    @triton.jit
    def add(p, r, n, N: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        tl.store(r + i, tl.load(p + i, mask=i < n), mask=i < n)
    return add

p, r = np.ones(8, np.float32), np.full((4, 4), 5, np.float32)[:, ::2]
GRID = lambda meta: (triton.cdiv(8, meta["N"]),)
"""


def test_configurations_are_tried_and_compiled_once_each(python: Run) -> None:
    out = python(
        TUNED
        + """
add = tuned()
add[GRID](p, r, 8)
tried = len(CALLS)
add[GRID](p, r, 8)
print(len(COMPILED), tried > 12, len(CALLS) - tried, add.best_config.kwargs["N"] in (16, 32))
add[GRID](p.astype(np.float16), r, 8)
print(len(add.cache), "torch" in sys.modules)
""",
        recorder=True,
        hide=("torch",),
    )
    assert out.splitlines()[0] == "2 True 1 True"
    assert out.splitlines()[1].startswith("2 ")


@pytest.mark.parametrize("kind", ["numpy", "memoryview"])
def test_reset_to_zero(python: Run, kind: str) -> None:
    out = python(
        TUNED
        + f"""
add = tuned(reset_to_zero=["r"])
given = memoryview(np.full(8, 5, np.float32)) if {kind!r} == "memoryview" else r
add[GRID](p, given, 8)
print(np.asarray(given).sum())
"""
        + "print(np.asarray(r.base).sum())",
        recorder=True,
    )
    # Of the array that `r` is a view of, only the viewed half is zeroed.
    assert out.split() == ["0.0", "40.0" if kind == "numpy" else "80.0"]


def test_restore_value(python: Run) -> None:
    out = python(
        TUNED
        + """
launch = sys.modules["omnikernel.runtime.launch"].Launcher
stock = launch.__call__
def spoil(self, *args):
    stock(self, *args)
    args[-3][...] += 1
launch.__call__ = spoil
add = tuned(restore_value=["r"])
add[GRID](p, r, 8)
print(r.tolist()[0])
""",
        recorder=True,
    )
    assert out.strip() == "[6.0, 6.0]"  # only the launch that counts is left to be seen


def test_an_array_that_cannot_be_reset(python: Run) -> None:
    out = python(
        TUNED
        + """
add = tuned(reset_to_zero=["r"])
frozen = np.zeros(8, np.float32)
frozen.flags.writeable = False
try:
    add[GRID](p, frozen, 8)
except TypeError as error:
    print(error)
""",
        recorder=True,
    )
    assert out.startswith(
        "autotuning: argument r is to be reset or restored between runs, but ndarray cannot be written"
    )


def test_results_are_kept_on_disk_and_survive_damage(python: Run) -> None:
    code = (
        TUNED
        + """
import pathlib, os
add = tuned(cache_results=True)
add[GRID](p, r, 8)
print(len(CALLS) > 12)
files = list(pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.autotune.json"))
print(len(files))
"""
    )
    assert python(code, recorder=True).split() == ["True", "1"]
    assert python(code, recorder=True).split() == ["False", "1"]
    damage = "\nfor file in files: file.write_text('{')"
    assert python(code + damage, recorder=True).split() == ["False", "1"]
    assert python(code, recorder=True).split() == ["True", "1"]


def test_the_tuner_drops_what_triton_drops(python: Run) -> None:
    out = python(
        """
import triton, triton.language as tl

@triton.autotune(configs=[triton.Config({"N": n}) for n in (8, 16, 32)], key=["n"])
@triton.jit
def only(p, n, N: tl.constexpr):
    tl.static_assert(N == 16, "sixteen alone")
    tl.store(p + tl.arange(0, N), n)

only[(1,)](np.zeros(64, np.int32), 8)
print(only.best_config.kwargs["N"])
""",
        recorder=True,
    )
    assert out.strip() == "16"


def test_do_bench_needs_no_torch(python: Run) -> None:
    out = python(
        """
import triton
calls = []
call = lambda: calls.append(1)
print(triton.testing.do_bench(call, warmup=1, rep=2) > 0, len(triton.testing.do_bench(call, 1, 2, quantiles=[0.5, 0.9])))
print(triton.testing.do_bench_cudagraph(call, rep=2) > 0, len(calls) > 5)
""",
        recorder=True,
        hide=("torch",),
    )
    assert out.split() == ["True", "2", "True", "True"]
