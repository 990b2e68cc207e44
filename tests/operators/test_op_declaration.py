"""Declarations: schemas, what a schema cannot say, wrong mutations, returned inputs."""

import numpy as np
import pytest
import triton
import triton.language as tl
from declared import everything, increment_kernel, outer, scale, scale_kernel

import omnikernel
from omnikernel import Array, DType
from omnikernel.errors import ArgumentTypeError
from omnikernel.ops.declare import OPERATORS
from omnikernel.ops.launches import AliasError, MutationError
from omnikernel.ops.schema import SchemaError


def test_a_schema_says_every_kind_of_parameter():
    assert everything.schema.torch() == (
        "(Tensor x, Tensor[] more, Tensor? maybe=None, SymInt[] sizes=[1, 2], *, bool flag=True, "
        'str mode="sum", ScalarType? dtype=None) -> (Tensor, Tensor)'
    )
    assert scale.schema.torch() == "(Tensor x, float factor=2.0) -> Tensor"


def declare(function, **options):
    return omnikernel.op(options.pop("name", f"tests::{function.__name__}"), **options)(function)


def no_annotation(x) -> Array: ...
def no_result(x: Array): ...
def a_dict(x: Array, options: dict) -> Array: ...
def variadic(*x: Array) -> Array: ...
def no_array(n: int) -> Array: ...
def returns_number(x: Array) -> int: ...
def nothing(x: Array) -> None: ...
def unknown_name(x: "Missing") -> Array: ...  # noqa: F821
def default_array(x: Array, y: Array = 3) -> Array: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (no_annotation, "parameter 'x': expected an annotation"),
        (no_result, "expected an annotation of the result"),
        (a_dict, "parameter 'options'"),
        (variadic, "use list\\[Array\\]"),
        (no_array, "at least one array"),
        (returns_number, "expected Array"),
        (nothing, "declare mutates"),
        (unknown_name, "cannot be resolved"),
        (default_array, "can only be None"),
    ],
)
def test_what_a_schema_cannot_say_is_an_error(function, says):
    with pytest.raises(SchemaError, match=says):
        declare(function)


def test_names_are_checked():
    with pytest.raises(SchemaError, match="namespace::name"):
        declare(nothing, name="gelu", mutates=("x",))
    with pytest.raises(SchemaError, match="the parameters are x"):
        declare(nothing, mutates=("y",))
    with pytest.raises(SchemaError, match="already declared"):
        declare(nothing, name="tests::scale", mutates=("x",))


def test_a_kernel_that_writes_an_undeclared_input_is_stopped_before_it_does():
    @omnikernel.op("tests::hidden_write")
    def hidden_write(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        increment_kernel[(1,)](x, x.size, BLOCK=16)
        return out

    x = np.zeros(4, np.float32)
    with pytest.raises(MutationError, match=r"increment_kernel.*stores through.*'x'.*mutates=\('x',\)"):
        hidden_write(x)
    assert not x.any()


def test_a_declared_mutation_that_no_kernel_makes_is_an_error():
    @omnikernel.op("tests::idle", mutates=("x", "y"))
    def idle(x: Array, y: Array) -> None:
        increment_kernel[(1,)](x, x.size, BLOCK=16)

    with pytest.raises(MutationError, match="no kernel that it launched stores through 'y'"):
        idle(np.zeros(4, np.float32), np.zeros(4, np.float32))


VIEWS = {
    "itself": lambda x: x,
    "reshaped": lambda x: x.reshape(-1),
    "of columns": lambda x: x if x.shape[1] else omnikernel.empty_like(x),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_returning_an_input_is_found_at_declaration(view):
    with pytest.raises(AliasError, match=r"result 0 is the input 'x' or a view.*out="):

        @omnikernel.op("tests::identity")
        def identity(x: Array, scale: float, names: list[int], y: Array | None = None, *, mode: str = "a") -> Array:
            return view(x)

    assert "tests::identity" not in OPERATORS


def test_a_view_by_the_library_s_own_functions_is_found_at_declaration():
    with pytest.raises(AliasError, match="shares memory with the input 'x'"):

        @omnikernel.op("tests::own_view")
        def own_view(x: Array) -> Array:
            return x.value[::1]


def test_what_cannot_be_decided_at_declaration_is_found_at_the_first_call():
    @omnikernel.op("tests::undecided")
    def undecided(x: Array) -> Array:
        if x.shape[0] != 4:
            raise ValueError("four")
        return x

    with pytest.raises(AliasError, match="is the input 'x' or a view"):
        undecided(np.zeros(4, np.float32))


def test_a_view_by_numpy_s_own_functions_is_found_at_the_first_call():
    @omnikernel.op("tests::undecided_view")
    def undecided_view(x: Array, step: int = 1) -> Array:
        if x.shape[0] != 4:
            raise ValueError("four")
        return x.value[::step] if step < 3 else x.value + 1

    for call in (undecided_view, lambda x: undecided_view(x, step=2)):
        with pytest.raises(AliasError, match="result 0 shares memory with the input 'x'"):
            call(np.zeros(4, np.float32))
    assert undecided_view(np.zeros(4, np.float32), 3).all()


def test_nothing_is_launched_at_declaration():
    ran = []

    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr):
        tl.store(x, 1.0)

    @omnikernel.op("tests::quiet", mutates=("x",))
    def quiet(x: Array) -> None:
        ran.append(x.value)
        kernel[lambda meta: ran.append("grid")](x, x.size, BLOCK=16)

    assert len(ran) == 1 and not ran[0].any()


def test_the_number_of_results_is_checked():
    @omnikernel.op("tests::two")
    def two(x: Array) -> tuple[Array, Array]:
        return omnikernel.empty_like(x)

    with pytest.raises(TypeError, match="declared 2 results"):
        two(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((3.0,), "'x': expected an array, got 3.0"),
        ((np.zeros(3, np.float32), "two"), "'factor': expected float, got 'two'"),
        ((np.zeros(3, np.float32), True), "'factor': expected float, got True"),
    ],
)
def test_arguments_of_a_wrong_kind(args, says):
    with pytest.raises(ArgumentTypeError, match=says):
        scale(*args)


def test_python_says_what_is_missing_or_unknown():
    x = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="missing 'x'"):
        scale(factor=1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        scale(x, scale=1.0)
    with pytest.raises(TypeError, match="takes 2 positional"):
        scale(x, 1.0, 2)


def test_launches_outside_of_an_operator_are_untouched():
    x, out = np.ones(5, np.float32), np.zeros(5, np.float32)
    scale_kernel[(1,)](x, out, 5, 3.0, BLOCK=16)
    assert (out == 3).all()


def test_allocation_outside_of_an_operator_is_an_error():
    with pytest.raises(omnikernel.errors.OmnikernelError, match="is for the function of an operator"):
        omnikernel.empty((3,), "float32")


def test_an_operator_calls_another():
    @omnikernel.op("tests::fourfold")
    def fourfold(x: Array) -> Array:
        return scale(scale(x))

    assert (fourfold(np.ones(3, np.float32)) == 4).all()


def test_autotuned_kernels():
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32)], key=["n"])(scale_kernel)

    @omnikernel.op("tests::tuned")
    def tuned_scale(x: Array) -> Array:
        out = omnikernel.empty_like(x)
        tuned[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, out, x.size, 2.0)
        return out

    assert (tuned_scale(np.ones(100, np.float32)) == 2).all()


def test_dtypes_by_any_name():
    assert DType("float32") == DType(np.float32) == DType(triton.language.float32) == "float32"


def test_outer_in_numpy():
    assert np.allclose(outer(np.arange(3.0), np.arange(4.0)), np.outer(np.arange(3.0), np.arange(4.0)))
