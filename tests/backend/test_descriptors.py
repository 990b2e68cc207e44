"""Host tensor descriptors over NumPy arrays, compiled and in the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., str]

CODE = """
import numpy as np
import triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def double(source, target):
    i = tl.program_id(0) * 8
    target.store([i, 0], source.load([i, 0]) * 2)

a, b = np.arange(64, dtype=np.float32).reshape(16, 4), np.zeros((16, 4), np.float32)
double[(2,)](TensorDescriptor.from_tensor(a, [8, 4]), TensorDescriptor(b, [16, 4], [4, 1], [8, 4]))
print((b == 2 * a).all())
try:
    TensorDescriptor(a[:, ::2], [16, 2], [4, 2], [8, 2])
except AssertionError as error:
    print(error)
"""


@pytest.mark.parametrize("env", [{}, {"TRITON_INTERPRET": "1"}], ids=["compiled", "interpreted"])
def test_numpy_arrays(python: Run, env: dict[str, str]) -> None:
    assert python(CODE, env=env, hide=("torch",)).splitlines() == ["True", "Last dimension must be contiguous"]
