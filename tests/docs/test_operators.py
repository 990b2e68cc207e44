"""The blocks of the pages about operators run in order, as a reader would type them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.jax, pytest.mark.slow]
ROOT = Path(__file__).parents[2]

# What a page leaves to the reader: put in front of the block that begins so.
GIVEN = {
    "gelu(numpy_array)": """
import numpy as np, torch, jax
numpy_array = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
tensor, jax_array = torch.from_numpy(numpy_array), jax.numpy.asarray(numpy_array)
""",
    "gelu.def_vjp": "from operators.gelu import gelu_grad\n",
    "import omnikernel.jax": """
x, y, n = jax_array[0], jax_array[1], 4

@triton.jit
def add_kernel(x, y, n, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)
""",
    '@omnikernel.op("mylib::scale")': """
import jax, torch, triton, triton.language as tl, omnikernel
from omnikernel import Array

@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)

jax_array = jax.numpy.ones((2, 4))
x, y = jax_array
out = jax.ShapeDtypeStruct(x.shape, x.dtype)

@triton.jit
def add_kernel(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < 4) + tl.load(y + i, i < 4), i < 4)
""",
}
CHECKS = {
    "operators.md": """
x = tensor.clone().requires_grad_()
y = x.detach().clone().requires_grad_()
gelu(x).sum().backward()
torch.nn.functional.gelu(y).sum().backward()
torch.testing.assert_close(x.grad, y.grad)
torch.testing.assert_close(torch.from_numpy(gelu(numpy_array)), torch.nn.functional.gelu(tensor))
program = jax.export.export(jax.jit(gelu), disabled_checks=omnikernel.jax.export_checks())(jax_array)
""",
    "migration.md": """
x = torch.ones(2, 4, requires_grad=True)
scale(x, 3.0).sum().backward()
assert x.grad.eq(3).all() and (scale(jax_array, 2.0) == 2).all()
""",
}


def blocks(page: str) -> list[str]:
    """The Python blocks of a page that a reader can run: no fragments, nothing that is left out, nothing of jax-triton's."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    whole = [b for b in found if not re.search(r"^ *\.\.\.$|: \.\.\.$|\.\.\.\)$|jax_triton|^if ", b, re.M)]
    return [b for b in whole if "class Scale" not in b and "wrap_triton" not in b]


@pytest.mark.parametrize("page", CHECKS)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    for library in ("torch", "jax", "flatbuffers"):
        pytest.importorskip(library)
    given = {start: text for start, text in GIVEN.items() if page == "operators.md" or start.startswith("@")}
    parts = [next((text for start, text in given.items() if b.startswith(start)), "") + b for b in blocks(page)]
    assert len(parts) >= 2
    (tmp_path / "page.py").write_text("\n\n".join([*parts, CHECKS[page], 'print("fine")']))
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT / 'examples')!r}]; import page"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout.strip() == "fine", run.stderr
