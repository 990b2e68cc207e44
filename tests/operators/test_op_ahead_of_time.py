"""AOTInductor: a package that holds its kernels runs in a process without their source."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from declared import scale, scale_kernel  # noqa: E402
from operators import softmax  # noqa: E402


class Model(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        torch.library.wrap_triton(scale_kernel)[(2,)](x, out, x.numel(), 3.0, BLOCK=256)
        return softmax(scale(out, 0.5) + 1)


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
