"""An operator on NumPy arrays.

In: the arguments of a call whose arrays are NumPy's. Out: new NumPy arrays, or the caller's own, given as `out=`. Other
libraries' arrays in the CPU's memory go the same way, see `protocol.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentTypeError, ArgumentValueError
from ..runtime.arrays import as_numpy, view_at
from .arrays import Array, DType, state
from .launches import AliasError, Checker, EagerRun, OffMixin, Place, call, results_of
from .schema import each

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param

Wrap = Callable[[Any, int], Array]


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name, those of ml_dtypes included.

    Raises:
        ArgumentTypeError: there is none of this name.
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        if not hasattr(ml_dtypes, name):
            raise ArgumentTypeError(f"NumPy and ml_dtypes have no dtype named {name!r}") from None
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


@cache
def _name_of(dtype: np.dtype[Any]) -> DType:
    return DType(dtype.name)


def memory_of(value: Any, where: str) -> np.ndarray[Any, Any]:
    """A NumPy array over the memory of another library's array.

    Args:
        value: an array with DLPack, the array interface or a buffer.
        where: what it is, for the text of an error.

    Raises:
        ArgumentTypeError, ArgumentValueError: it is no array in the CPU's memory, or of elements that Triton does not have.
    """
    place = Place(words=where)
    found = view_at(value, place)
    if found is None or found.shape is None:
        raise place.type_error("an array", f"a {type(value).__qualname__}", "pass one that has DLPack, e.g. NumPy's")
    return as_numpy(found)


class NumpyArray(Array):
    """A NumPy array inside an operator's function."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        shape: tuple[int, ...] = self.value.shape
        return shape

    @property
    def size(self) -> int:
        """The number of elements."""
        size: int = self.value.size
        return size

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return _name_of(self.value.dtype)

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        step: int = self.value.strides[dimension] // self.value.itemsize
        return step


class NumpyRun(EagerRun):
    """A call on NumPy arrays. `outs` are the caller's arrays for some allocations, by their number."""

    __slots__ = ("count", "outs")

    def __init__(self, checker: Checker, outs: Mapping[int, Any] | None = None) -> None:
        self.checker = checker
        self.launched = False
        self.wrote = frozenset()
        self.outs = outs
        self.count = 0

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array, or the caller's."""
        if self.outs is not None:
            self.count += 1
            if self.count - 1 in self.outs:
                return NumpyArray(self.outs[self.count - 1])
        return NumpyArray(np.empty(shape, dtype_of(dtype)))

    def empty_like(self, array: Array) -> Array:
        """A new dense array."""
        if self.outs is not None:
            return self.empty(array.shape, array.dtype)
        value = array.value
        return NumpyArray(np.empty(value.shape, value.dtype))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array of zeros, or the caller's, filled with zeros."""
        if self.outs is None:
            return NumpyArray(np.zeros(shape, dtype_of(dtype)))
        found = self.empty(shape, dtype)
        found.value[...] = 0
        return found

    def inside(self, checker: Checker) -> NumpyRun:
        """A call of another operator."""
        return NumpyRun(checker)

    def wrap(self, value: Any) -> Array:
        """A NumPy array."""
        return NumpyArray(np.asarray(value))

    def dense(self, array: Array) -> Array:
        """The array itself, or a copy."""
        return array if array.value.flags.c_contiguous else NumpyArray(dense(array.value))

    def assign(self, target: Array, value: Array) -> None:
        """Copy elements."""
        target.value[...] = value.value


class Plan(OffMixin):
    """A run without launches that numbers the allocations."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.count = 0
        self.made: list[Array] = []

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        self.made.append(NumpyArray(np.broadcast_to(np.zeros((), dtype_of(dtype)), shape)))
        return self.made[-1]

    def empty_like(self, array: Array) -> Array:
        return self.empty(array.shape, array.dtype)

    zeros = empty

    def inside(self, checker: Checker) -> Plan:
        return Plan(checker)

    def wrap(self, value: Any) -> Array:
        return NumpyArray(np.asarray(value))

    def dense(self, array: Array) -> Array:
        return array

    def assign(self, target: Array, value: Array) -> None:
        pass


def dense(value: Any) -> Any:
    """The array itself where it is C-contiguous, else a copy."""
    return value if value.flags.c_contiguous else value.copy(order="C")


def bind(op: Operator) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """The function that handles calls on NumPy arrays."""
    schema, function, checker = op.schema, op.function, op.checker
    params = schema.params
    plain_arrays = tuple(
        (i, param.strided) for i, param in enumerate(params) if param.kind.is_array and not param.kind.many
    )
    simple = all(param.kind.base != "dtype" and not param.kind.many and not param.mutated for param in params)
    scalars = schema.exact
    fills = schema.fills if simple and not any(param.keyword_only for param in params) else {}
    single = schema.single
    ndarray = np.ndarray
    run = NumpyRun(checker)  # for all calls: it counts allocations only for an `out`, and nothing here may be written

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        fill = fills.get(len(args))
        if fill is None or kwargs:
            return slow(args, kwargs)
        values = [*args, *fill]
        for i, strided in plain_arrays:
            value = values[i]
            if type(value) is not ndarray:
                return slow(args, kwargs)
            if not strided and not value.flags.c_contiguous:
                value = value.copy(order="C")
            values[i] = NumpyArray(value, i)
        for i, kind in scalars:
            if type(values[i]) is not kind:
                return slow(args, kwargs)
        before = state.run
        state.run = run
        try:
            returned = function(*values)
        finally:
            state.run = before
        if single and type(returned) is NumpyArray and returned.source < 0:
            return returned.value
        results = results_of(schema, returned)
        _check_memory(op, args, returned, results)
        return op.schema.packed(results)

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None) if "out" in kwargs and all(p.name != "out" for p in params) else None
        bound = schema.bind(args, kwargs)
        if op.mixed(bound) != "numpy":
            return op.dispatch(bound, out)
        return run_on(op, bound, out)

    return handle


def _check_memory(op: Operator, bound: Sequence[Any], returned: Any, results: Sequence[Any]) -> None:
    """A result that the function made by NumPy's functions may still be a view of an input."""
    items = each(returned)
    for index, (item, result) in enumerate(zip(items, results, strict=False)):
        if isinstance(item, Array) or not isinstance(result, np.ndarray):
            continue
        for param, value in zip(op.schema.params, bound, strict=False):
            inputs = each(value)
            if any(isinstance(one, np.ndarray) and np.may_share_memory(one, result) for one in inputs):
                raise AliasError(
                    f"operator {op.name}: result {index} shares memory with the input {param.name!r}; return a new array, or "
                    f"declare mutates=({param.name!r},) and -> None"
                )


def run_on(
    op: Operator, bound: Sequence[Any], out: Any = None, run: NumpyRun | None = None, wrap: Wrap = NumpyArray
) -> Any:
    """Call an operator on bound arguments whose arrays are NumPy's.

    Args:
        op: the operator.
        bound: a value for each parameter.
        out: the caller's arrays for the results.
        run: where arrays come from.
        wrap: what the function sees of an argument: of a NumPy array and the number of the parameter.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument of another kind than declared, or an `out` that does not fit.
    """
    schema = op.schema
    values: list[Any] = []
    copied: list[tuple[Any, Any]] = []  # a mutated array, and the dense copy that the kernels write
    for index, (param, value) in enumerate(zip(schema.params, bound, strict=True)):
        values.append(_wrapped(op, index, param, value, copied, wrap))
    args, kwargs = schema.arguments(values)
    run = run or NumpyRun(op.checker)
    late: list[tuple[Any, int]] = []
    given = each(out)
    if out is not None:
        run.outs, late = _outs(op, bound, args, kwargs, [_target(op, item) for item in given])
    returned = call(op.function, run, args, kwargs)
    results = results_of(schema, returned)
    _check_memory(op, bound, returned, results)
    op.check_wrote(run)
    for target, copy in copied:
        target[...] = copy
    if out is not None:
        for target, index in late:
            result = results[index]
            target[...] = (
                result if isinstance(result, np.ndarray) else memory_of(result, f"operator {op.name}: a result")
            )
        results = tuple(given)
    return op.schema.packed(results)


def _wrapped(op: Operator, index: int, param: Param, value: Any, copied: list[tuple[Any, Any]], wrap: Wrap) -> Any:
    if not param.kind.is_array:
        return op.scalar(param, value)
    if value is None and param.kind.optional:
        return None
    if param.kind.many:
        return [_array(op, index, param, item, copied, wrap) for item in op.items(param, value)]
    return _array(op, index, param, value, copied, wrap)


def _array(op: Operator, index: int, param: Param, value: Any, copied: list[tuple[Any, Any]], wrap: Wrap) -> Array:
    if not isinstance(value, np.ndarray):
        described = (
            f"{value!r}" if isinstance(value, (int, float, str, bool, type(None))) else f"a {type(value).__qualname__}"
        )
        raise ArgumentTypeError(f"operator {op.name}, argument {param.name!r}: expected an array, got {described}")
    if param.mutated and not value.flags.writeable:
        raise ArgumentValueError(
            f"operator {op.name}, argument {param.name!r}: expected an array that can be written, got a read-only one; pass a copy"
        )
    if param.strided or value.flags.c_contiguous:
        return wrap(value, index)
    copy = dense(value)
    if param.mutated:
        copied.append((value, copy))
    return wrap(copy, index)


def _outs(
    op: Operator,
    bound: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    given: Sequence[np.ndarray[Any, Any]],
) -> tuple[dict[int, Any], list[tuple[Any, int]]]:
    """The caller's arrays by the number of the allocation that they stand for, and those to copy to at the end."""
    plan = Plan(op.checker)
    returned = call(op.function, plan, args, kwargs)
    items = (returned,) if op.schema.single else tuple(returned or ())
    if len(given) != len(items):
        raise ArgumentValueError(f"operator {op.name}: out= needs {len(items)} arrays, got {len(given)}")
    outs, late = {}, []
    inputs = [a for value in bound for a in each(value) if isinstance(a, np.ndarray)]
    for index, (target, item) in enumerate(zip(given, items, strict=True)):
        shape, dtype = _form(op, item)
        if target.shape != shape or DType(target.dtype) != dtype or not target.flags.writeable:
            got = f"{target.dtype}{list(target.shape)}{'' if target.flags.writeable else ', read-only'}"
            raise ArgumentValueError(f"operator {op.name}: expected out= of {dtype}{list(shape)}, got {got}")
        place = next((n for n, made in enumerate(plan.made) if made is item), None)
        if place is None or not target.flags.c_contiguous or any(np.may_share_memory(target, a) for a in inputs):
            late.append((target, index))
        else:
            outs[place] = target
    return outs, late


def _form(op: Operator, item: Any) -> tuple[tuple[int, ...], DType]:
    """The shape and dtype of a result, which the function may have made by array functions of the library."""
    if not isinstance(item, (Array, np.ndarray)):
        item = memory_of(item, f"operator {op.name}: a result")
    return tuple(item.shape), DType(item.dtype)


def _target(op: Operator, given: Any) -> np.ndarray[Any, Any]:
    """The memory of an array that is given as `out=`."""
    from .declare import library_of

    if isinstance(given, np.ndarray):
        return given
    library = library_of(given)
    if library == "protocol":
        return memory_of(given, f"operator {op.name}, out=")
    got, advice = f"a {type(given).__qualname__}", ""
    if library == "jax":
        got, advice = "a JAX array, which is immutable", "; leave out= away and pass the result to jnp.asarray"
    elif library == "torch":
        got, advice = "a torch tensor", "; pass out.numpy(), which shares its memory, or tensors for the arguments too"
    raise ArgumentTypeError(f"operator {op.name}: out= takes NumPy arrays here, got {got}{advice}")
