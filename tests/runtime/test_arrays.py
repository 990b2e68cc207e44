"""Array adapters: one suite for all libraries, and the exact text of every refusal."""

from __future__ import annotations

import array
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from omnikernel.errors import ArgumentTypeError, ArgumentValueError
from omnikernel.runtime import arrays
from omnikernel.runtime.arrays import ArrayView, view


class InterfaceOnly:
    """An array that only has the array interface."""

    def __init__(self, of: np.ndarray) -> None:
        self.of = of

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.of.__array_interface__


class DLPackOnly:
    """An array that only has DLPack."""

    def __init__(self, of: np.ndarray) -> None:
        self.of = of

    def __dlpack__(self, **kwargs: Any) -> object:
        return self.of.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.of.__dlpack_device__()


class OldDLPack(DLPackOnly):
    """A producer from before DLPack 1.0."""

    def __dlpack__(self, stream: object = None) -> object:  # type: ignore[override]
        return self.of.__dlpack__()


class Pointered:
    """What users write for Triton today."""

    def __init__(self, of: np.ndarray, dtype: str) -> None:
        self.of, self.dtype = of, dtype

    def data_ptr(self) -> int:
        return self.of.ctypes.data


def torch_tensor(of: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(of)


def jax_array(of: np.ndarray) -> Any:
    jax = pytest.importorskip("jax")
    return jax.device_put(of, jax.devices("cpu")[0])


WRITEABLE: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda a: a,
    "torch": torch_tensor,
    "dlpack": DLPackOnly,
    "old dlpack": OldDLPack,
    "array interface": InterfaceOnly,
    "buffer": memoryview,
}
READABLE = {**WRITEABLE, "jax": jax_array}


def seen(obj: object) -> ArrayView:
    found = view(obj, "kernel", "x")
    assert found is not None
    return found


def elements(found: ArrayView, dtype: Any) -> np.ndarray:
    """The elements as a kernel would see them: by address and strides."""
    import ctypes

    assert found.shape is not None and found.strides is not None and found.extent is not None
    low, high = found.extent
    memory = (ctypes.c_char * (high - low)).from_address(low) if high > low else b""
    return np.ndarray(found.shape, dtype, memory, found.address - low if high > low else 0, found.strides)


# ---- the shared suite ----


@pytest.mark.parametrize("library", READABLE)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "bool"])
def test_dtypes_and_values(library: str, dtype: str) -> None:
    if library == "jax" and dtype in ("int64", "float64"):
        pytest.skip("JAX narrows 64-bit types by default")
    source = (np.arange(24).reshape(4, 6) % 3).astype(dtype)
    found = seen(READABLE[library](source))
    assert found.dtype == arrays.DTYPES[dtype]
    assert found.shape == (4, 6)
    assert found.extent == (found.address, found.address + source.nbytes)
    np.testing.assert_array_equal(elements(found, source.dtype), source)


@pytest.mark.parametrize("library", WRITEABLE)
def test_same_memory(library: str) -> None:
    source = np.arange(6, dtype=np.float32)
    found = seen(WRITEABLE[library](source))
    assert found.writeable and found.address == source.ctypes.data
    elements(found, np.float32)[2] = 99
    assert source[2] == 99


@pytest.mark.parametrize("library", list(WRITEABLE))
@pytest.mark.parametrize("index", [np.s_[::2, 1::2], np.s_[2], np.s_[1:3, :, None], np.s_[:, ::-1], np.s_[::-2, ::-3]])
def test_strided_views(library: str, index: Any) -> None:
    source = np.arange(24, dtype=np.float32).reshape(4, 6)[index]
    if min(source.strides, default=1) < 0 and library in ("torch", "dlpack", "old dlpack"):
        pytest.skip("the library has no negative strides")
    found = seen(WRITEABLE[library](source))
    assert found.shape == source.shape and found.strides is not None
    taken = [
        (ours, theirs) for ours, theirs, n in zip(found.strides, source.strides, source.shape, strict=True) if n > 1
    ]
    assert all(ours == theirs for ours, theirs in taken)  # the stride of an extent of 1 means nothing
    assert found.address == source.__array_interface__["data"][0]  # element 0, also where strides are negative
    assert found.extent is not None and found.extent[1] - found.extent[0] <= 96
    np.testing.assert_array_equal(elements(found, np.float32), source)


@pytest.mark.parametrize("library", READABLE)
def test_zero_dimensions(library: str) -> None:
    found = seen(READABLE[library](np.array(2.5, np.float32)))
    assert found.shape == () and found.strides == ()
    assert elements(found, np.float32)[()] == 2.5


@pytest.mark.parametrize("library", READABLE)
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty(library: str, shape: tuple[int, ...]) -> None:
    if library == "buffer" and len(shape) > 1:
        pytest.skip("NumPy gives no buffer of such a shape")
    found = seen(READABLE[library](np.zeros(shape, np.float32)))
    assert found.shape == shape
    assert found.extent is not None and found.extent[0] == found.extent[1]


@pytest.mark.parametrize("library", ["numpy", "dlpack", "array interface", "buffer"])
def test_read_only(library: str) -> None:
    source = np.arange(4, dtype=np.float32)
    source.flags.writeable = False
    assert not seen(WRITEABLE[library](source)).writeable


@pytest.mark.parametrize("name", [n for n in arrays.DTYPES if n == "bfloat16" or n.startswith("float8")])
def test_narrow_floats_of_ml_dtypes(name: str) -> None:
    source = np.zeros((2, 3), getattr(ml_dtypes, name))
    found = seen(source)
    assert found.dtype == arrays.DTYPES[name]
    assert found.extent == (found.address, found.address + source.nbytes)


def test_every_dtype_has_a_size() -> None:
    assert set(arrays.ITEMSIZE) == set(arrays.DTYPES.values())
    for numpy_name, name in arrays.DTYPES.items():
        dtype = np.dtype(getattr(ml_dtypes, numpy_name, None) or numpy_name)
        assert arrays.ITEMSIZE[name] == dtype.itemsize


# ---- libraries by themselves ----


def test_jax_arrays_are_ready_and_read_only() -> None:
    jnp = pytest.importorskip("jax.numpy")
    product = jnp.ones((700, 700)) @ jnp.ones((700, 700))  # asynchronous
    found = seen(product)
    assert not found.writeable
    assert elements(found, np.float32)[699, 699] == 700


def test_jax_narrow_floats() -> None:
    jnp = pytest.importorskip("jax.numpy")
    assert seen(jnp.zeros((2, 2), jnp.bfloat16)).dtype == "bf16"
    assert seen(jnp.zeros((2, 2), jnp.float8_e4m3fn)).strides == (2, 1)


def test_torch_strides_and_subclasses() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.nn.Parameter(torch.zeros(4, 6))
    found = seen(tensor.t()[1:])
    assert found.shape == (5, 4) and found.strides == (4, 24)
    assert found.address == tensor.data_ptr() + 4
    assert found.extent == (tensor.data_ptr() + 4, tensor.data_ptr() + 96)
    assert seen(torch.zeros(1, 3).expand(5, 3)).strides == (0, 4)


def test_array_and_bytearray() -> None:
    assert seen(array.array("d", [1, 2])).dtype == "fp64"
    assert seen(bytearray(5)).extent is not None and seen(bytearray(5)).dtype == "u8"
    assert not seen(memoryview(b"abc")).writeable


def test_objects_with_data_ptr() -> None:
    source = np.zeros(3, np.float32)
    for spelling in ("fp32", "float32", "torch.float32"):
        found = seen(Pointered(source, spelling))
        assert found.dtype == "fp32" and found.address == source.ctypes.data
        assert found.extent is None  # unknown


def test_reinterpreted_tensor_keeps_its_extent() -> None:
    torch, triton = pytest.importorskip("torch"), pytest.importorskip("triton")
    tensor = torch.zeros(8, dtype=torch.int8)
    found = seen(triton.reinterpret(tensor, triton.language.float8e5))
    assert found.dtype == "fp8e5"
    assert found.extent == (tensor.data_ptr(), tensor.data_ptr() + 8)


@pytest.mark.parametrize(
    "obj", [None, True, 3, 2.5, "text", np.float32(1), np.int64(3), ml_dtypes.bfloat16(1), [1, 2], int]
)
def test_what_is_no_array(obj: object) -> None:
    assert view(obj) is None


def test_a_copied_dlpack_export_is_not_writeable() -> None:
    class Copies(DLPackOnly):
        def __dlpack__(self, **kwargs: Any) -> object:
            return self.of.__dlpack__(copy=True, max_version=(1, 1))

    assert not seen(Copies(np.zeros(3, np.float32))).writeable


def test_nothing_but_numpy_is_imported() -> None:
    import subprocess

    code = (
        "import sys; import numpy as np; from omnikernel.runtime.arrays import view; view(np.zeros(3)); view(3);"
        "print([m for m in ('torch', 'jax', 'jaxlib', 'cupy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- refusals, word for word ----


def refused(obj: object, kind: type[Exception] = ArgumentTypeError) -> str:
    with pytest.raises(kind) as caught:
        view(obj, "scale", "x")
    return str(caught.value)


def test_byte_order() -> None:
    assert refused(np.zeros(3, ">f4")) == (
        "kernel 'scale', parameter 'x': expected an array in native byte order, got a numpy array of '>f4'; "
        "pass a.astype(a.dtype.newbyteorder('=')) instead"
    )


@pytest.mark.parametrize(
    ("array", "got", "advice"),
    [
        (np.array([None]), "object", "a kernel cannot see Python objects or fields"),
        (np.zeros(2, [("a", "f4")]), "[('a', '<f4')]", "a kernel cannot see Python objects or fields"),
    ],
)
def test_no_numbers(array: np.ndarray, got: str, advice: str) -> None:
    assert refused(array) == (
        f"kernel 'scale', parameter 'x': expected an array of numbers, got a numpy array of {got}; {advice}"
    )


@pytest.mark.parametrize(
    ("dtype", "got"), [("U3", "<U3"), ("c8", "complex64"), ("M8[s]", "datetime64[s]"), (ml_dtypes.int4, "int4")]
)
def test_dtypes_that_triton_lacks(dtype: Any, got: str) -> None:
    assert refused(np.zeros(2, dtype)) == (
        "kernel 'scale', parameter 'x': expected an array of a dtype that Triton has, "
        f"got a numpy array of {got}; convert it first, e.g. to float32"
    )


def test_unaligned_elements() -> None:
    raw = np.zeros(17, np.uint8)
    expected = (
        "kernel 'scale', parameter 'x': expected elements at multiples of 4 bytes, "
        "got a numpy array of float32 with unaligned elements; pass a copy"
    )
    assert refused(raw[1:].view(np.float32), ArgumentValueError) == expected
    assert refused(np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], ArgumentValueError) == expected


def test_masked_arrays() -> None:
    assert refused(np.ma.masked_array([1.0], [True])) == (
        "kernel 'scale', parameter 'x': expected a plain array, got a numpy masked array; "
        "pass a.filled(value) or a.data and a.mask"
    )


def test_without_names() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^an argument: expected an array in native byte order"):
        view(np.zeros(3, ">f4"))


def test_torch_refusals() -> None:
    torch = pytest.importorskip("torch")
    start = "kernel 'scale', parameter 'x': expected "
    assert refused(torch.zeros(3, device="meta")) == (
        start + "a tensor on the CPU, got a torch tensor of float32 on meta; "
        "move it with .cpu(), or launch the kernel on its device"
    )
    assert refused(torch.zeros(3).to_sparse()) == (
        start + "a strided tensor, got a torch tensor of layout sparse_coo; pass .to_dense() or its parts"
    )
    with pytest.warns(UserWarning):  # torch deprecates them
        quantised = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.quint8)
    assert refused(quantised) == (
        start + "a tensor of plain numbers, got a quantised torch tensor; pass .int_repr() and the scale"
    )
    assert refused(torch._neg_view(torch.zeros(3)), ArgumentValueError) == (
        start + "a materialised tensor, got a torch tensor of float32 on cpu with a lazy sign; "
        "pass .resolve_neg().resolve_conj()"
    )
    assert refused(torch.zeros(3, dtype=torch.complex64)) == (
        start + "an array of a dtype that Triton has, got a torch tensor of complex64 on cpu; "
        "convert it first, e.g. to float32"
    )
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    assert refused(fake) == (
        start + "a tensor with data, got a FakeTensor without storage; "
        "wrap the kernel as an operator to use it under tracing, vmap or grad"
    )
    with pytest.raises(ArgumentTypeError, match="got a Tensor without storage"):
        torch.vmap(lambda row: (view(row), row)[1])(torch.zeros(2, 3))


def test_jax_refusals() -> None:
    jax = pytest.importorskip("jax")
    start = "kernel 'scale', parameter 'x': expected "
    texts = []
    jax.jit(lambda a: (texts.append(refused(a)), a)[1])(jax.numpy.zeros(3))
    assert texts == [
        start + "a concrete JAX array, got a traced value of float32[3]; "
        "use omnikernel.jax.triton_call inside jit, vmap and grad"
    ]
    gone = jax.numpy.zeros(3)
    gone.delete()
    assert refused(gone, ArgumentValueError) == (
        start + "a live array, got a JAX array of float32 that was deleted or donated; pass the array that replaced it"
    )


def test_dlpack_on_another_device() -> None:
    class OnDevice(DLPackOnly):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    assert refused(OnDevice(np.zeros(3))) == (
        f"kernel 'scale', parameter 'x': expected an array in CPU memory, got a {__name__}."
        "test_dlpack_on_another_device.<locals>.OnDevice on DLPack device 2; "
        "copy it to the CPU, or launch the kernel on its device"
    )


def test_objects_with_data_ptr_of_an_unknown_dtype() -> None:
    assert refused(Pointered(np.zeros(2), "complex64")) == (
        "kernel 'scale', parameter 'x': expected an array of a dtype that Triton has, "
        "got an object of complex64; convert it first, e.g. to float32"
    )


def test_jax_keys_are_refused() -> None:
    jax = pytest.importorskip("jax")
    assert refused(jax.random.key(0)) == (
        "kernel 'scale', parameter 'x': expected an array of a dtype that Triton has, "
        "got a JAX array of key<fry>; convert it first, e.g. to float32"
    )
