"""Sharded inputs: no gathering along dimensions that `def_sharding` names, replication elsewhere, the same numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from declared import outer, scale

from omnikernel.errors import OmnikernelError
from omnikernel.ops.schema import SchemaError

JAX = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
from declared import outer, scale
from operators import layer_norm
mesh = jax.make_mesh((2, 2), ("a", "b"))
on = lambda x, *axes: jax.device_put(x, NamedSharding(mesh, P(*axes)))
x, y = jnp.arange(8.0), jnp.arange(6.0) + 1
rows, w = jnp.arange(32.0).reshape(4, 8) ** 1.5, jnp.arange(8.0)

def gathers(f, *args):
    return jax.jit(f).lower(*args).compile().as_text().count("all-gather")

def same(f, args, whole):
    np.testing.assert_allclose(np.asarray(jax.jit(f)(*args)), np.asarray(f(*whole)), rtol=1e-5)

assert gathers(outer, on(x, "a"), y), "without a rule, everything is gathered"
same(outer, (on(x, "a"), y), (x, y))
outer.def_sharding("i, j -> i j")
assert not gathers(outer, on(x, "a"), on(y, "b")), "split both ways"
same(outer, (on(x, "a"), on(y, "b")), (x, y))
assert jax.jit(outer)(on(x, "a"), on(y, "b")).sharding.is_equivalent_to(NamedSharding(mesh, P("a", "b")), 2)
same(outer, (on(x, "a"), on(y, "a")), (x, y))
layer_norm.def_sharding("... n, n, n -> ... n", whole="n")
args = on(rows, ("a", "b"), None), w, w
assert not gathers(layer_norm, *args), "rows are apart"
same(layer_norm, args, (rows, w, w))
assert gathers(layer_norm, on(rows, None, "a"), w, w), "a row is whole"
same(layer_norm, (on(rows, None, "a"), w, w), (rows, w, w))
loss = lambda x: (layer_norm(x, w, w) ** 2).sum()
same(jax.grad(loss), args[:1], (rows,))
batch = jnp.stack([rows, rows + 1])
same(jax.vmap(lambda x: layer_norm(x, w, w)), (on(batch, None, "a"),), (batch,))
print("fine")
"""


@pytest.mark.jax
def test_no_gathering_in_jit():
    pytest.importorskip("jax")
    here = Path(__file__).parent
    env = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(here.parents[1] / "examples"), os.environ.get("PYTHONPATH", "")]),
    }
    run = subprocess.run([sys.executable, "-c", JAX], capture_output=True, text=True, cwd=here, env=env, check=False)
    assert run.stdout.strip() == "fine", run.stderr[-3000:]


@pytest.mark.parametrize("text", ["i -> i j", "i, j", "i, j -> i j, i", "i, 2 -> i"])
def test_names_that_do_not_fit(text):
    with pytest.raises(SchemaError, match=r"such as|names no dimension"):
        outer.def_sharding(text)


def test_a_whole_dimension_that_is_not_there():
    with pytest.raises(SchemaError, match="'k' names no dimension"):
        outer.def_sharding("i, j -> i j", whole="k")


def test_an_array_of_another_rank():
    from omnikernel.ops.sharding import read_dimensions

    named = read_dimensions(scale.schema, "... n -> ... n", ("n",))
    assert named.named([3]).arrays == (("rest0", "rest1", "n"),)
    assert named.named([3]).free() == ("rest0", "rest1")
    with pytest.raises(OmnikernelError, match="of an array of 0 dimensions"):
        named.named([0])
