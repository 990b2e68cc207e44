"""Twenty steps of gradient descent on the example transformer, in torch or JAX."""

import numpy as np
from operators.block import OURS, Functions, Sizes, data, loss, parameters

RATE = 0.5


def plain_torch():
    """torch's own functions."""
    import torch.nn.functional as F

    return Functions(
        lambda h, w, b: F.layer_norm(h, w.shape, w, b),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        F.gelu,
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
    )


def torch_step(compiled=False, use=OURS, sizes=None):
    """A function that makes one step and returns the loss."""
    import torch

    sizes = sizes or Sizes()
    weights = {name: torch.tensor(w, requires_grad=True) for name, w in parameters(sizes).items()}
    x, y = (torch.tensor(a) for a in data(sizes))
    forward = lambda weights, x, y: loss(weights, x, y, sizes, use)  # noqa: E731
    run = torch.compile(forward, fullgraph=True) if compiled else forward

    def step():
        found = run(weights, x, y)
        grads = torch.autograd.grad(found, list(weights.values()))
        with torch.no_grad():
            for weight, grad in zip(weights.values(), grads, strict=True):
                weight.sub_(RATE * grad)
        return found.item()

    return step


def jax_step(sizes=None):
    """The same in JAX."""
    import jax
    import jax.numpy as jnp

    sizes = sizes or Sizes()
    state = {"weights": {name: jnp.asarray(w) for name, w in parameters(sizes).items()}}
    x, y = (jnp.asarray(a) for a in data(sizes))

    @jax.jit
    def update(weights):
        found, grads = jax.value_and_grad(lambda w: loss(w, x, y, sizes))(weights)
        return found, jax.tree.map(lambda w, g: w - RATE * g, weights, grads)

    def step():
        found, state["weights"] = update(state["weights"])
        return float(found)

    return step


def losses(step, steps=20):
    return np.array([step() for _ in range(steps)])
