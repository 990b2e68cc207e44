"""Operators and triton_call on JAX arrays: jit, derivatives, vmap, loops, sharding, references, export, bad input."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

import jax.numpy as jnp  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from declared import blocks, everything, increment_, increment_kernel, outer, scale, scale_kernel  # noqa: E402

import omnikernel  # noqa: E402
import omnikernel.jax as oj  # noqa: E402
from omnikernel import Array  # noqa: E402
from omnikernel.errors import ArgumentTypeError, ArgumentValueError  # noqa: E402
from omnikernel.ops.launches import MutationError  # noqa: E402

X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-6)


@pytest.mark.parametrize("x", [X, X.T, X[:0], jnp.float32(3)])
def test_eager_and_jit(x):
    same(scale(x), 2 * x)
    same(scale(x), 2 * x)  # the second call takes another path
    same(scale(x, factor=3.0), 3 * x)
    same(jax.jit(lambda x: scale(x + 1, 3.0) * 2)(x), (x + 1) * 6)


def test_a_program_is_not_traced_again_for_the_same_shapes():
    before = len(scale._jax_functions)
    for factor in (5.0, 6.0, 5.0):
        scale(X, factor)
    assert len(scale._jax_functions) == before + 2


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.int32])
def test_dtypes(dtype):
    same(scale(X.astype(dtype)), (2 * X).astype(dtype))


def test_derivatives():
    y = jnp.arange(4.0)
    found = jax.grad(lambda x, y: (outer(x, y) ** 2).sum(), argnums=(0, 1))(X[:, 0], y)
    expected = jax.grad(lambda x, y: (jnp.outer(x, y) ** 2).sum(), argnums=(0, 1))(X[:, 0], y)
    for a, b in zip(found, expected, strict=True):
        same(a, b)
    from jax.test_util import check_grads

    check_grads(outer, (X[:, 1] / 5, y / 3), order=2, modes=["rev"], atol=0.05, rtol=0.05)


def test_wrong_gradients_are_counted_as_the_user_counts():
    @omnikernel.op("tests::wrong_jax")
    def wrong(x: Array, y: Array) -> Array:
        return omnikernel.zeros((3,), x.dtype)

    wrong.def_vjp(lambda saved, grad: saved[0], save=lambda x, y, out: (x, y))
    with pytest.raises(ArgumentValueError, match="returned 1 gradients, expected 2"):
        jax.grad(lambda x: wrong(x, x).sum())(jnp.ones(3))


def test_jvp_when_given():
    @omnikernel.op("tests::with_jvp")
    def with_jvp(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        scale_kernel[blocks(x.size)](x, out, x.size, 2.0, BLOCK=64)
        return out

    with_jvp.def_jvp(lambda primals, tangents: (with_jvp(*primals), with_jvp(*tangents)))
    same(jax.jvp(with_jvp, (X,), (X,))[1], 2 * X)


# ---- vmap ----


def test_vmap_never_bakes_the_grid():
    y = jnp.arange(4.0)
    xs = jnp.arange(15.0).reshape(5, 3)
    same(jax.vmap(scale)(X), 2 * X)
    same(jax.vmap(scale, in_axes=1, out_axes=1)(X), 2 * X)
    same(jax.vmap(outer, in_axes=(0, None))(xs, y), jnp.einsum("bi,j->bij", xs, y))
    same(
        jax.vmap(outer, in_axes=(None, 0))(xs[0], jnp.stack([y, y])), jnp.einsum("i,bj->bij", xs[0], jnp.stack([y, y]))
    )
    both = jax.vmap(lambda a: jax.vmap(lambda b: outer(a, b))(jnp.stack([y, 2 * y])))(xs)
    same(both, jnp.einsum("bi,cj->bcij", xs, jnp.stack([y, 2 * y])))
    swapped = jax.vmap(jax.vmap(outer, in_axes=(0, None)), in_axes=(None, 0))(xs, jnp.stack([y, 2 * y]))
    same(swapped, jnp.einsum("bi,cj->cbij", xs, jnp.stack([y, 2 * y])))
    same(jax.vmap(jax.grad(lambda x: (outer(x, y) ** 2).sum()))(xs), 2 * xs * (y**2).sum())
    same(jax.vmap(lambda x: everything(x, [x])[0])(xs), 2 * xs)
    same(jax.vmap(scale)(X[:0]), X[:0])


def test_vmap_of_a_kernel_that_adds_to_its_output():
    @triton.jit
    def add_to(out, x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.atomic_add(out + 0 * i, tl.load(x + i, i < n), i < n)

    @omnikernel.op("tests::total")
    def total(x: Array) -> Array:
        out = omnikernel.zeros((1,), x.dtype)
        add_to[(1,)](out, x, x.size, BLOCK=16)
        return out

    same(jax.vmap(total)(X), X.sum(1)[:, None])
    same(jax.vmap(jax.vmap(total))(X[None]), X.sum(1)[None, :, None])


def test_one_launch_for_a_batch():
    text = jax.jit(jax.vmap(scale)).lower(X).as_text()
    assert text.count("@omnikernel") == 1 and "while" not in text


def test_a_vmap_rule_of_the_user():
    @omnikernel.op("tests::ruled_jax")
    def ruled(x: Array, flag: bool = True) -> Array:
        out = omnikernel.empty_like(x)
        scale_kernel[blocks(x.size)](x, out, x.size, 2.0, BLOCK=64)
        return out

    calls = []
    ruled.def_vmap(lambda size, batched, x, flag: calls.append((size, batched)) or scale(x))
    same(jax.vmap(ruled)(X), 2 * X)
    assert calls == [(3, (True, False))]


# ---- control flow, sharding, references, donation ----


def test_loops_and_branches():
    same(jax.lax.scan(lambda c, row: (scale(c, 1.0) + row, scale(row)), jnp.zeros(4), X)[1], 2 * X)
    same(jax.lax.fori_loop(0, 3, lambda _, x: scale(x), X), 8 * X)
    same(jax.lax.cond(True, scale, lambda x: x, X), 2 * X)


def test_two_devices():
    """In a process of its own: the number of devices is set before JAX starts."""
    code = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from declared import outer, scale
mesh = Mesh(np.array(jax.devices()), ("d",))
x, y = jnp.arange(6.0), jnp.arange(4.0)
sharded = jax.jit(jax.shard_map(outer, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d")))
assert len(jax.devices()) == 2
assert np.allclose(sharded(x, y), np.outer(x, y))
grads = jax.grad(lambda x, y: (sharded(x, y) ** 2).sum(), argnums=(0, 1))(x, y)
expected = jax.grad(lambda x, y: (jnp.outer(x, y) ** 2).sum(), argnums=(0, 1))(x, y)
assert all(np.allclose(a, b) for a, b in zip(grads, expected))
assert np.allclose(jax.pmap(scale)(x.reshape(2, 3)), 2 * x.reshape(2, 3))
placed = jax.device_put(x, NamedSharding(mesh, P("d")))
assert np.allclose(jax.jit(outer)(placed, y), np.outer(x, y))
print("fine")
"""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    here = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here, env=env, check=False)
    assert run.stdout.strip() == "fine", run.stderr


def test_writes_in_place_go_through_references():
    ref = jax.new_ref(jnp.zeros(5))
    increment_(ref)
    increment_(ref)
    same(ref[...], jnp.full(5, 2.0))

    @jax.jit
    def step(x):
        inner = jax.new_ref(x)
        increment_(inner)
        return inner[...]

    same(step(jnp.zeros(5)), jnp.ones(5))
    with pytest.raises(ArgumentTypeError, match=r"'x'.*immutable.*jax.new_ref"):
        increment_(jnp.zeros(5))


def test_donation_and_aliases():
    def call(x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return oj.triton_call(
            x, x.size, kernel=increment_kernel, out_shape=out, grid=(1,), input_output_aliases={0: 0}, BLOCK=16
        )

    x = jnp.zeros(16)
    same(jax.jit(call)(x), jnp.ones(16))
    same(x, jnp.zeros(16))
    address = x.unsafe_buffer_pointer()
    found = jax.jit(call, donate_argnums=0)(x)
    assert x.is_deleted() and found.unsafe_buffer_pointer() == address


def test_results_that_are_not_ready_are_waited_for():
    big = jnp.full((600, 600), 0.5)
    same(scale(big @ big), 2 * (big @ big))


# ---- triton_call ----


def scaled(x, factor=3.0, **options):
    """`scale_kernel` has its output between its inputs, so it is passed under another order of parameters."""
    return oj.triton_call(
        x, x.size, factor, kernel=reordered_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **options
    )


@triton.jit
def reordered_kernel(x, n, factor, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


def test_triton_call():
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    same(scaled(X, grid=grid, BLOCK=8), 3 * X)
    same(jax.jit(lambda x: scaled(x, grid=2, BLOCK=8))(X), 3 * X)
    same(jax.vmap(lambda x: scaled(x, grid=1, BLOCK=8))(X), 3 * X)


def test_triton_call_with_an_autotuned_kernel():
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (8, 16)], key=["n"])(reordered_kernel)
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    same(oj.triton_call(X, X.size, 3.0, kernel=tuned, out_shape=out, grid=grid), 3 * X)


def test_triton_call_refuses_what_is_wrong():
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    with pytest.raises(ArgumentTypeError, match="stores through its parameter 'x', which is an input"):
        oj.triton_call(X, X.size, kernel=increment_kernel, out_shape=[], grid=(1,), BLOCK=16)
    with pytest.raises(ArgumentValueError, match="cannot share memory"):
        bad = jax.ShapeDtypeStruct((2,), X.dtype)
        oj.triton_call(X, 12, kernel=increment_kernel, out_shape=bad, grid=(1,), input_output_aliases={0: 0}, BLOCK=16)
    with pytest.raises(ArgumentTypeError, match="grid of whole numbers"):
        scaled(X, grid=(1.5,), BLOCK=8)
    with pytest.raises(ArgumentValueError, match="grid of one to three"):
        scaled(X, grid=(1, 1, 1, 1), BLOCK=8)
    with pytest.raises(ArgumentTypeError, match="expected a Triton kernel"):
        oj.triton_call(X, kernel=print, out_shape=out, grid=(1,))


def test_an_assert_of_the_kernel_reaches_the_caller():
    @triton.jit
    def checked(x, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i)
        tl.device_assert(v > 0, "positive only")
        tl.store(out + i, v)

    call = jax.jit(lambda x: oj.triton_call(x, kernel=checked, out_shape=x, grid=(1,), BLOCK=16, debug=True))
    same(call(jnp.ones(16)), jnp.ones(16))
    with pytest.raises(Exception, match=r"kernel 'checked', program \(0, 0, 0\).*positive only"):
        call(jnp.zeros(16)).block_until_ready()


# ---- bad input ----


def test_bad_input():
    with pytest.raises(ArgumentTypeError, match="no out="):
        scale(X, out=np.zeros((3, 4), np.float32))
    with pytest.raises(Exception, match="complex64"):
        scale(X.astype(jnp.complex64))
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentTypeError, match="'x' is a JAX array and 'y' a torch tensor"):
        outer(X[0], torch.ones(3))


def test_a_tracer_that_escapes():
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        scale(kept[0])


def test_undeclared_writes():
    @omnikernel.op("tests::hidden_write_jax")
    def hidden(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        increment_kernel[(1,)](x, x.size, BLOCK=16)
        return out

    with pytest.raises(MutationError, match="mutates=\\('x',\\)"):
        hidden(X)


def test_numpy_among_jax_arrays():
    assert isinstance(outer(X[0], np.arange(3, dtype=np.float32)), jax.Array)


# ---- other processes, no extension ----


def test_an_exported_program_runs_in_a_process_without_the_kernel(tmp_path):
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(lambda x: scale(x) + 1), disabled_checks=oj.export_checks())(X)
    (tmp_path / "program").write_bytes(exported.serialize())
    code = f"""
import sys, jax, jax.numpy as jnp, omnikernel.jax
program = jax.export.deserialize(bytearray(open({str(tmp_path / "program")!r}, "rb").read()))
print(program.call(jnp.arange(12, dtype=jnp.float32).reshape(3, 4)).sum(), "declared" in sys.modules)
"""
    env = {**os.environ, "OMNIKERNEL_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert run.stdout.split() == ["144.0", "False"], run.stderr


def test_without_the_extension():
    code = """
import jax, jax.numpy as jnp, numpy as np
from declared import increment_, outer
x, y = jnp.arange(6.0), jnp.arange(4.0)
assert np.allclose(jax.vmap(outer, in_axes=(0, None))(x.reshape(2, 3), y), np.einsum("bi,j->bij", x.reshape(2, 3), y))
print("fine")
"""
    env = {**os.environ, "OMNIKERNEL_NO_NATIVE": "1"}
    here = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here, env=env, check=False)
    assert run.stdout.strip() == "fine", run.stderr


@pytest.mark.parametrize("dtype", ["complex64", "int4", "float8_e8m0fnu"])
def test_an_element_type_that_triton_lacks(dtype):
    x = jnp.zeros(3, dtype)
    for call in (scale, jax.jit(scale)):
        with pytest.raises(
            ArgumentTypeError, match=f"tests::scale, argument 'x': expected a dtype that .*, got {dtype}"
        ):
            call(x)
    with pytest.raises(ArgumentTypeError, match=f"'scale_kernel', parameter 'out': .*{dtype}"):
        everything(X, [], dtype=dtype)


def test_random_keys_are_no_numbers():
    with pytest.raises(ArgumentTypeError, match=r"argument 'x': expected a dtype that Triton has, got key"):
        scale(jax.random.key(0))


@pytest.mark.parametrize("out", [X, np.zeros((3, 4), np.float32)], ids=["jax", "numpy"])
def test_there_is_no_out(out):
    with pytest.raises(
        ArgumentTypeError, match="tests::scale: JAX arrays are immutable, so there is no out=; use the result"
    ):
        scale(X, out=out)
