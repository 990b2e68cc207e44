"""Are these operators worth their upkeep? `omnikernel worth examples/worth.py:add_relu`, and `...:attention` (needs torch).

Each has a reference, which `torch.compile` gets, and an example, the arguments of both.
"""

import numpy as np
from operators.attention import attention_and_lse as attention

import omnikernel
from omnikernel import Array

module = omnikernel.load_inline(
    "worth",
    cuda_source=r"""
#include <omnikernel.h>
__global__ void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; }
}
""",
)


def add_relu_reference(a, b):
    return (a + b).clip(0)


@omnikernel.op("worth::add_relu", reference=add_relu_reference)
def add_relu(a: Array, b: Array) -> Array:
    out = omnikernel.empty_like(a)
    module.add_relu[omnikernel.cdiv(a.size, 256), 256](a, b, out)
    return out


add_relu.def_example(lambda: tuple(np.random.default_rng(0).standard_normal((2, 1 << 22), np.float32)))


def attention_reference(q, k, v, causal, scale):
    """As a textbook has it: with the matrix of scores."""
    import torch

    scores = q @ k.mT * scale
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def attention_example():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 8, 1024, 64), np.float32)
    return {"q": q, "k": k, "v": v, "causal": True, "scale": 64**-0.5}


attention.def_reference(attention_reference).def_example(attention_example)
