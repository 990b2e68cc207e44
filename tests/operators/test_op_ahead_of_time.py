"""AOTInductor: a package that holds its kernels runs in a process without their source."""

import subprocess
import sys

import pytest
import triton
import triton.language as tl

import omnikernel
from omnikernel import Array

torch = pytest.importorskip("torch")

from declared import scale, scale_kernel  # noqa: E402
from operators import softmax  # noqa: E402


class Model(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        torch.library.wrap_triton(scale_kernel)[(2,)](x, out, x.numel(), 3.0, BLOCK=256)
        return softmax(scale(out, 0.5) + 1)


@triton.jit
def count_kernel(x, counts, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    keep = (i < m) & (j < n)
    tl.atomic_add(counts + i * n + j, tl.load(x + i * n + j, keep), keep)
    tl.atomic_add(counts + m * n, 1.0)


configs = [triton.Config({"ROWS": r, "COLUMNS": c}, num_warps=w) for r, c, w in ((8, 4, 4), (4, 16, 4), (4, 16, 8))]
tuned_count = triton.autotune(configs, key=["n"])(count_kernel)


@omnikernel.op("tests::count_visits")
def count_visits(x: Array) -> Array:
    m, n = x.shape
    counts = omnikernel.zeros((m * n + 1,), x.dtype)
    tuned_count[lambda meta: (triton.cdiv(m, meta["ROWS"]), triton.cdiv(n, meta["COLUMNS"]))](x, counts, m, n)
    return counts


class Counted(torch.nn.Module):
    def forward(self, x):
        return count_visits(x)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("dynamic", [False, True])
def test_autotuned_kernels_get_the_grid_of_their_configuration(dynamic, tmp_path, monkeypatch):
    """Every element is seen once, by no more programs than needed, whatever the sizes."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    x = torch.ones(20, 30)
    dims = {"x": {0: torch.export.Dim("m"), 1: torch.export.Dim("n")}} if dynamic else None
    exported = torch.export.export(Counted(), (x,), dynamic_shapes=dims)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    model = torch._inductor.aoti_load_package(package)
    for m, n in ((20, 30), (33, 7), (5, 100)) if dynamic else ((20, 30),):
        found = model(torch.ones(m, n))
        assert found[:-1].eq(1).all()
        assert round(found[-1].item(), 3) in {-(-m // r) * -(-n // c) for r, c in ((8, 4), (4, 16))}


@pytest.mark.slow
@pytest.mark.torch
def test_a_package_in_a_new_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    x = torch.randn(8, 33)
    exported = torch.export.export(Model(), (x,))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    torch.save((x, Model()(x)), tmp_path / "values")
    code = f"""
import sys, torch
model = torch._inductor.aoti_load_package({package!r})
x, expected = torch.load({str(tmp_path / "values")!r})
torch.testing.assert_close(model(x), expected)
print("declared" in sys.modules, "omnikernel.ops.declare" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.stdout.split() == ["False", "False"], run.stderr
