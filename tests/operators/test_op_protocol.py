"""Operators on arrays of libraries without a binding of their own: an array-API namespace, DLPack alone, a GPU's arrays."""

import contextlib
import sys
import types
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from declared import dense_copy, everything, increment_, outer, scale

import omnikernel
from omnikernel import Array
from omnikernel.cpp import driver
from omnikernel.errors import ArgumentTypeError, ArgumentValueError
from omnikernel.ops import device

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def xp():
    return pytest.importorskip("array_api_strict")


def numpy_of(array):
    return np.from_dlpack(array)


# ---- an array-API namespace ----


@pytest.mark.parametrize("a", [X, X.T, X[:, ::2], X[:0], np.full((), 3, np.float32)])
def test_results_are_of_the_library(xp, a):
    x = xp.from_dlpack(a)
    for _ in range(2):  # the second call takes another path
        found = scale(x)
        assert type(found) is type(x) and found.dtype == xp.float32
        assert np.array_equal(numpy_of(found), 2 * a)
    assert np.array_equal(numpy_of(scale(x=x, factor=3.0)), 3 * a)


def test_every_kind_of_argument(xp):
    x = xp.from_dlpack(X)
    one, two = everything(x, [x, X], None, (2, 3), flag=False, mode="ten", dtype="float64")
    assert type(one) is type(two) is type(x) and one.dtype == xp.float64
    assert np.array_equal(numpy_of(one), 12 * X) and two.shape == (2, 3)


def test_strided_parameters_come_as_they_are(xp):
    assert np.array_equal(numpy_of(dense_copy(xp.from_dlpack(X).T)), X.T)


def test_numpy_arrays_among_them(xp):
    x, y = xp.asarray([1.0, 2.0]), np.arange(3.0)
    for found in (outer(x, y), outer(y, x).T):
        assert type(found) is type(x)
        assert np.array_equal(numpy_of(found), np.outer([1, 2], y))


def test_out(xp):
    x, out = xp.from_dlpack(X), xp.zeros((3, 4), dtype=xp.float32)
    assert scale(x, out=out) is out and np.array_equal(numpy_of(out), 2 * X)
    memory = np.zeros_like(X)
    assert scale(x, 3.0, out=memory) is memory and np.array_equal(memory, 3 * X)
    assert scale(X, 4.0, out=out) is out and np.array_equal(numpy_of(out), 4 * X)
    transposed = xp.zeros((4, 3), dtype=xp.float32).T
    assert np.array_equal(numpy_of(scale(x, out=transposed)), 2 * X)
    with pytest.raises(ArgumentValueError, match=r"expected out= of float32\[3, 4\]"):
        scale(x, out=xp.zeros((3, 4)))


def test_writes_in_place(xp):
    x = xp.zeros((3, 4), dtype=xp.float32)
    increment_(x)
    increment_(x[:, 1])
    assert numpy_of(x).tolist() == [[1, 2, 1, 1]] * 3


def test_a_dense_input_is_not_copied(xp, monkeypatch):
    from omnikernel.ops import protocol

    seen, array = [], xp.from_dlpack(X)
    stock = protocol.ForeignRun.empty_like
    monkeypatch.setattr(protocol.ForeignRun, "empty_like", lambda run, a: seen.append(a) or stock(run, a))
    scale(array)
    assert seen[0].memory.ctypes.data == X.ctypes.data and seen[0].value is array


def test_the_body_sees_the_library(xp):
    @omnikernel.op("tests::by_namespace")
    def by_namespace(x: Array) -> tuple[Array, Array]:
        twice = scale(x)
        library = omnikernel.namespace(x.value)
        assert x.reshape(-1).shape == (x.size,) and x.stride(0) == 4 and x.device == "cpu"
        return library.exp(x.value), library.sin(twice.value)

    x = xp.from_dlpack(X)
    a, b = by_namespace(x)
    assert type(a) is type(b) is type(x)
    assert np.allclose(numpy_of(a), np.exp(X)) and np.allclose(numpy_of(b), np.sin(2 * X))
    outs = np.zeros_like(X), np.zeros_like(X)
    by_namespace(X, out=outs)
    assert np.allclose(outs[0], np.exp(X)) and np.allclose(outs[1], np.sin(2 * X))


def test_a_dtype_that_the_library_lacks(xp):
    with pytest.raises(ArgumentTypeError, match=r"a result of bfloat16 cannot become an array of array_api_strict"):
        everything(xp.from_dlpack(X), [], dtype="bfloat16")


def test_an_element_type_that_triton_lacks(xp):
    with pytest.raises(
        ArgumentTypeError, match=r"tests::scale, argument 'x': expected an array of a dtype that Triton"
    ):
        scale(xp.zeros(3, dtype=xp.complex64))


@pytest.mark.torch
def test_among_torch_tensors(xp):
    torch = pytest.importorskip("torch")
    x, y = xp.asarray([1.0, 2.0]), torch.arange(3, dtype=torch.float64)
    assert isinstance(outer(x, y), torch.Tensor)
    assert torch.equal(outer(y, x), torch.outer(y, torch.tensor([1.0, 2.0], dtype=torch.float64)))


@pytest.mark.jax
def test_among_jax_arrays(xp):
    jnp = pytest.importorskip("jax.numpy")
    x, y = xp.asarray([1.0, 2.0], dtype=xp.float32), jnp.arange(3, dtype=jnp.float32)
    assert isinstance(outer(x, y), jnp.ndarray)
    assert np.array_equal(outer(y, x), np.outer(np.arange(3), [1, 2]))


# ---- DLPack alone ----


class Packed:
    """An array with DLPack and nothing else; `array` may be read-only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_without_a_namespace_results_are_numpy_s():
    found = scale(Packed(X))
    assert type(found) is np.ndarray and np.array_equal(found, 2 * X)
    out = np.zeros_like(X)
    scale(X, out=Packed(out))
    assert np.array_equal(out, 2 * X)


def test_a_read_only_array_in_a_written_position():
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    assert scale(Packed(fixed)).shape == (3,)
    with pytest.raises(ArgumentValueError, match=r"'x'.*read-only"):
        increment_(Packed(fixed))


@pytest.mark.torch
def test_dtypes_of_ml_dtypes():
    torch = pytest.importorskip("torch")
    found = scale(Packed(torch.tensor([1.0, 2.5], dtype=torch.bfloat16)))
    assert found.dtype == ml_dtypes.bfloat16 and found.tolist() == [2, 5]


# ---- arrays of a GPU; CuPy's shape of things over memory of the CPU, as no GPU is needed to see where arrays go ----


@dataclass
class Numbered:
    id: int


class DeviceMemory:
    """What CuPy's arrays have, over NumPy's memory."""

    __module__ = "cupy.stand_in"

    def __init__(self, array, device=0):
        self.array, self.device = array, Numbered(device)
        self.dtype, self.shape = array.dtype, array.shape

    @property
    def __cuda_array_interface__(self):
        strides = None if self.array.flags.c_contiguous else self.array.strides
        data, text = (self.array.ctypes.data, False), self.array.dtype.str
        return {"shape": self.shape, "strides": strides, "typestr": text, "data": data, "version": 3}

    def __array_namespace__(self):
        return SPACE


SPACE = types.SimpleNamespace(
    __name__="cupy",
    float32=np.float32,
    empty=lambda shape, dtype: DeviceMemory(np.empty(shape, dtype)),
    zeros=lambda shape, dtype: DeviceMemory(np.zeros(shape, dtype)),
    ascontiguousarray=lambda a: DeviceMemory(np.ascontiguousarray(a.array)),
)


class Kernel:
    """A kernel that takes arrays of a GPU, as C++ ones do; `written_positions` as they give it."""

    __name__ = "double"
    arg_names = ("x", "out")
    written_positions = ((1, "out"),)

    def warmup(self, *args, **options):
        return self

    def run(self, x, out, *, grid, warmup):
        out.array[...] = 2 * x.array
        return self

    def __getitem__(self, grid):
        run = omnikernel.ops.arrays.state.run
        return lambda *args, **kwargs: run.launch(self, grid, args, kwargs)


@omnikernel.op("tests::double_on_device")
def double(x: Array) -> Array:
    out = omnikernel.empty_like(x)
    Kernel()[(1,)](x, out)
    assert (x.device, x.dtype, x.stride(0)) == ("cuda", "float32", 4)
    return out


@pytest.fixture
def a_driver(monkeypatch):
    monkeypatch.setattr(driver, "driver", lambda: types.SimpleNamespace(cuInit=None))


def test_without_a_driver_it_is_an_error_that_says_so():
    if driver.driver() is not None:
        pytest.skip("there is a GPU here")
    with pytest.raises(ArgumentTypeError, match=r"tests::scale: got an array of a GPU.*no driver.*copy it to the CPU"):
        scale(DeviceMemory(X))
    with pytest.raises(ArgumentTypeError, match="no driver"):
        outer(X, DeviceMemory(X))


def test_results_are_allocated_by_the_library(a_driver):
    found = double(DeviceMemory(X))
    assert isinstance(found, DeviceMemory) and np.array_equal(found.array, 2 * X)
    turned = double(DeviceMemory(np.ones((4, 3), np.float32).T))
    assert turned.array.shape == (3, 4) and (turned.array == 2).all()


def test_all_arrays_are_on_one_device(a_driver):
    with pytest.raises(
        ArgumentTypeError, match=r"tests::outer, argument 'y': expected an array on cuda:0, got one on cuda:1"
    ):
        outer(DeviceMemory(X), DeviceMemory(X, 1))
    with pytest.raises(ArgumentTypeError, match=r"'y': expected an array on cuda:0, where the others are"):
        outer(DeviceMemory(X), X)


def test_what_the_library_cannot_do(a_driver, monkeypatch):
    with pytest.raises(ArgumentTypeError, match="no out="):
        scale(DeviceMemory(X), out=DeviceMemory(X))
    with pytest.raises(ArgumentTypeError, match="cupy has no dtype named 'bfloat16'"):
        everything(DeviceMemory(X), [], dtype="bfloat16")
    with pytest.raises(ArgumentValueError, match="expected a dense array, got one of strides"):
        increment_(DeviceMemory(X.T))
    monkeypatch.delattr(DeviceMemory, "__array_namespace__")
    with pytest.raises(ArgumentTypeError, match="has no array-API namespace"):
        scale(DeviceMemory(X))


def test_cupys_module_is_its_namespace(a_driver, monkeypatch):
    """As CuPy 14 has it: its arrays do not say their namespace."""
    module = types.SimpleNamespace(**vars(SPACE), from_dlpack=None)
    monkeypatch.delattr(DeviceMemory, "__array_namespace__")
    monkeypatch.setitem(sys.modules, "cupy", module)
    found = double(DeviceMemory(X))
    assert type(found) is DeviceMemory and (found.array == 2 * X).all()


def test_triton_gets_addresses_and_the_stream_of_the_library(a_driver, monkeypatch):
    seen = []

    class Jitted:
        __name__, params, arg_names = "jitted", (), ("x", "out")

        def warmup(self, *args, grid):
            seen.append([type(arg) for arg in args])

        def run(self, *args, grid, warmup):
            seen.append([(arg.data_ptr(), arg.dtype, arg.device) for arg in args])
            return self

    @contextlib.contextmanager
    def stream(number, gpu, kernel):
        seen.append((number, gpu, kernel))
        yield

    monkeypatch.setattr(device, "torch_stream", stream)
    monkeypatch.setitem(sys.modules, "cupy", stand_in_for_cupy(stream=77))
    run = device.DeviceRun(scale.checker, SPACE, 0)
    x, out = DeviceMemory(X), DeviceMemory(X.copy())
    run.launch(Jitted(), (1,), (device.DeviceArray(x, 0), device.DeviceArray(out)), {})
    addresses = [(a.array.ctypes.data, "float32", "cuda") for a in (x, out)]
    assert seen == [(77, 0, "jitted"), [device.Pointer] * 2, addresses]


def test_triton_on_a_gpu_needs_torch(monkeypatch):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    says = r"kernel 'scale_kernel': Triton launches.*torch is not installed"
    with pytest.raises(ArgumentTypeError, match=says), device.torch_stream(0, 0, "scale_kernel"):
        pass


def stand_in_for_cupy(stream):
    current = types.SimpleNamespace(ptr=stream)
    cuda = types.SimpleNamespace(Device=lambda number: contextlib.nullcontext(), get_current_stream=lambda: current)
    return types.SimpleNamespace(ndarray=DeviceMemory, cuda=cuda)
