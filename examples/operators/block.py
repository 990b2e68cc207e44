"""A small transformer of two blocks, written once with the operators: the same code trains in PyTorch and in JAX."""

from dataclasses import dataclass

import numpy as np

from .attention import attention
from .cross_entropy import cross_entropy
from .gelu import gelu
from .layer_norm import layer_norm


@dataclass(frozen=True, slots=True)
class Sizes:
    width: int = 64
    heads: int = 4
    length: int = 32
    words: int = 50
    batch: int = 4
    blocks: int = 2


def parameters(sizes, seed=0):
    """Initial weights, f32 NumPy arrays by name."""
    random, d = np.random.default_rng(seed), sizes.width
    weights = {"words": random.normal(size=(sizes.words, d)) * 0.1, "out": random.normal(size=(d, sizes.words)) * 0.1}
    for i in range(sizes.blocks):
        for norm in ("norm1", "norm2"):
            weights[f"{i}.{norm}.weight"], weights[f"{i}.{norm}.bias"] = np.ones(d), np.zeros(d)
        for name, rows, columns in (("qkv", d, 3 * d), ("project", d, d), ("up", d, 4 * d), ("down", 4 * d, d)):
            weights[f"{i}.{name}"] = random.normal(size=(rows, columns)) * rows**-0.5
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


def data(sizes, seed=1):
    """Word numbers (batch, length), and those to predict."""
    x = np.random.default_rng(seed).integers(0, sizes.words, (sizes.batch, sizes.length))
    return x, (3 * x + 1) % sizes.words


@dataclass(frozen=True, slots=True)
class Functions:
    """What the model is built of; a comparison puts a framework's own functions here."""

    norm: object = layer_norm
    attend: object = lambda q, k, v: attention(q, k, v, True)
    act: object = gelu
    lose: object = cross_entropy


OURS = Functions()


def loss(weights, x, y, sizes, use=OURS):
    """The mean loss. All arrays of one library."""
    b, t, d, n = sizes.batch, sizes.length, sizes.width, sizes.heads
    h = weights["words"][x]
    for i in range(sizes.blocks):
        qkv = use.norm(h, weights[f"{i}.norm1.weight"], weights[f"{i}.norm1.bias"]) @ weights[f"{i}.qkv"]
        split = qkv.reshape(b, t, 3 * n, d // n).swapaxes(1, 2)
        mixed = use.attend(split[:, :n], split[:, n : 2 * n], split[:, 2 * n :])
        h = h + mixed.swapaxes(1, 2).reshape(b, t, d) @ weights[f"{i}.project"]
        inner = use.norm(h, weights[f"{i}.norm2.weight"], weights[f"{i}.norm2.bias"]) @ weights[f"{i}.up"]
        h = h + use.act(inner) @ weights[f"{i}.down"]
    logits = (h @ weights["out"]).reshape(b * t, sizes.words)
    return use.lose(logits, y.reshape(-1)).mean()
