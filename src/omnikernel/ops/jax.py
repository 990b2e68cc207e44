"""An operator on JAX arrays: a jitted function whose launches are calls of one XLA handler.

In: an `Operator`. Out: a handler of calls on concrete or traced JAX values. The operator's function runs while JAX traces,
on shapes and dtypes; every launch becomes a call that takes the arrays it reads and gives those it writes anew. JAX arrays
are immutable: what an operator mutates is passed as a `jax.Ref`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ArgumentTypeError
from ..runtime.arrays import DTYPES as TRITON_DTYPES
from . import xla, xla_python
from .arrays import Array, DType, view_of
from .declare import library_of
from .gradients import arranged, rebuild, split, spread
from .launches import Checker, call, innermost, results_of
from .numpy import dtype_of, memory_of
from .partition import partitioned
from .schema import each
from .sharding import Dimensions
from .traced import Aval, compile_for

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param


class Cell:
    """The current value of an array while an operator's function is traced; None where nothing was written yet."""

    __slots__ = ("dtype", "shape", "value")

    def __init__(self, shape: tuple[int, ...], dtype: DType, value: Any = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.value = value

    def read(self) -> Any:
        """The value; zeros where nothing was written."""
        return jnp.zeros(self.shape, dtype_of(self.dtype)) if self.value is None else self.value


class JaxArray(Array):
    """An array inside an operator's function: a cell, perhaps seen in another shape."""

    __slots__ = ("_shape", "cell")

    def __init__(self, cell: Cell, source: int = -1, shape: tuple[int, ...] | None = None) -> None:
        self.cell = cell
        self.source = source
        self._shape = cell.shape if shape is None else shape

    @property
    def value(self) -> Any:
        """The JAX value."""
        return self.cell.read().reshape(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return self.cell.dtype

    def reshape(self, *shape: Any) -> Array:
        """The same cell in another shape."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        shape = np.broadcast_to(np.int8(0), self._shape).reshape(extents).shape
        return JaxArray(self.cell, view_of(self.source), shape)

    def shares(self, other: Array) -> bool:
        """Whether two arrays are the same cell."""
        return isinstance(other, JaxArray) and other.cell is self.cell

    def seen_as(self, source: int) -> Array:
        """The same cell as the parameter of another number."""
        return JaxArray(self.cell, source, self._shape)


def _enabled(dtype: DType) -> DType:
    """The dtype that JAX makes of one: without `jax_enable_x64` it has none of 64 bits, and warns."""
    if "64" not in dtype:
        return dtype
    return DType(jnp.zeros((), dtype_of(dtype)).dtype)


class JaxRun:
    """A traced call: launches become calls of the XLA handler."""

    __slots__ = ("checker", "wrote")

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.wrote: set[int] = set()

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array; the first kernel that writes it makes it."""
        return JaxArray(Cell(shape, _enabled(dtype)))

    def empty_like(self, array: Array) -> Array:
        """A new array of the same shape and dtype."""
        return JaxArray(Cell(array.shape, array.dtype))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new array of zeros."""
        dtype = _enabled(dtype)
        return JaxArray(Cell(shape, dtype, jnp.zeros(shape, dtype_of(dtype))))

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compile the kernel for the arguments' shapes and dtypes, and add the call to the traced program."""
        names = innermost(kernel).arg_names
        held = [_held(arg) for arg in args]
        named = {name: _held(value) for name, value in kwargs.items()}
        made = compile_for(kernel, [_aval(a) for a in held], {n: _aval(v) for n, v in named.items()}, grid)
        arrays = [*held, *(named.get(name) for name in names[len(held) :])]
        cells: dict[int, tuple[Cell, list[int]]] = {}  # the distinct arrays, and the parameters that are each
        for index, (position, value) in enumerate(made.arguments):
            if isinstance(value, Aval):
                array = arrays[position]
                cells.setdefault(id(array.cell), (array.cell, []))[1].append(index)
                if made.written[index] and array.source >= 0:
                    if array.source not in self.checker.mutable:
                        self.checker._refuse(kernel, names[position], array.source)
                    self.wrote.add(array.source)
        for cell, value in zip((c for c, _ in cells.values()), place(made, list(cells.values())), strict=True):
            cell.value = value

    def inside(self, checker: Checker) -> JaxRun:
        """A traced call of another operator."""
        return JaxRun(checker)

    def wrap(self, value: Any) -> Array:
        """An array with a cell of its own."""
        array = jnp.asarray(value)
        return JaxArray(Cell(tuple(array.shape), DType(array.dtype), array))

    def dense(self, array: Array) -> Array:
        """XLA's arrays are dense."""
        return array

    def assign(self, target: Array, value: Array) -> None:
        """Nothing was copied."""

    def note(self, source: int) -> None:
        """A call of another operator writes the parameter of this number."""
        self.wrote.add(source)


def place(made: Any, cells: Sequence[tuple[Cell, list[int]]]) -> list[Any]:
    """Call a compiled kernel on cells.

    Args:
        made: the compiled kernel.
        cells: every array, with the numbers of the kernel's parameters that are this array.

    Returns:
        The new value of every cell.
    """
    operands: list[Any] = []
    results: list[tuple[tuple[int, ...], Any]] = []
    aliases: list[tuple[int, int]] = []
    operand_of: dict[int, int] = {}
    result_of: dict[int, int] = {}
    for number, (cell, parameters) in enumerate(cells):
        written = any(made.written[p] for p in parameters)
        if cell.value is not None or not written or any(made.read[p] for p in parameters):
            operand_of[number] = len(operands)
            operands.append(cell.read())
        if written:
            if number in operand_of:
                aliases.append((operand_of[number], len(results)))
            result_of[number] = len(results)
            results.append((tuple(cell.shape), dtype_of(cell.dtype)))
    places = [xla.Place(-1, value if isinstance(value, int) else 0) for _, value in made.arguments]
    for number, (_, parameters) in enumerate(cells):
        buffer = len(operands) + result_of[number] if number in result_of else operand_of[number]
        for p in parameters:
            places[p] = xla.Place(buffer)
    key, packed = xla.register(made.kernel)
    found = xla.bind(xla.Call(key, packed, made.grid, tuple(places), tuple(results), tuple(aliases)), operands)
    return [found[result_of[n]] if n in result_of else cell.value for n, (cell, _) in enumerate(cells)]


def _held(value: Any) -> Any:
    """JAX arrays that the function got by other means than its parameters are arrays too."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return JaxArray(Cell(tuple(value.shape), DType(value.dtype), jnp.asarray(value)))
    return value


def _aval(value: Any) -> Any:
    return Aval(value.cell.shape, value.cell.dtype) if isinstance(value, JaxArray) else value


# ---- the function of an operator, as JAX transforms it ----


@jax.tree_util.register_static
class _Static:
    """Values that are no arrays, on their way from the forward to the backward function."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)


def _primal(op: Operator, template: tuple[Any, ...]) -> Callable[..., tuple[Any, ...]]:
    """The operator as a function of its arrays alone; gives the results, then the new values of what it mutates."""
    schema = op.schema
    mutable = sorted(op.checker.mutable)

    def run(*arrays: Any) -> tuple[Any, ...]:
        wrapped: list[Any] = []
        for index, value in enumerate(rebuild(template, arrays)):
            if schema.params[index].kind.is_array and isinstance(value, tuple):
                wrapped.append([_wrapped(op, index, item) for item in value])
            else:
                wrapped.append(_wrapped(op, index, value) if isinstance(value, jax.Array) else value)
        args, kwargs = schema.arguments(wrapped)
        results = results_of(schema, call(op.function, JaxRun(op.checker), args, kwargs))
        return (*results, *(array.cell.read() for index in mutable for array in _each(wrapped[index])))

    return run


def _each(value: Any) -> Sequence[Any]:
    """The arrays of an argument that is an array, a list of them, or None."""
    return value if isinstance(value, list) else () if value is None else (value,)


def _wrapped(op: Operator, index: int, value: Any) -> JaxArray:
    if value.dtype.name not in TRITON_DTYPES:
        raise ArgumentTypeError(
            f"operator {op.name}, argument {op.schema.params[index].name!r}: expected a dtype that Triton has, got "
            f"{value.dtype.name}; convert it first, e.g. to float32"
        )
    return JaxArray(Cell(tuple(value.shape), DType(value.dtype), value), index)


def _differentiable(op: Operator, template: tuple[Any, ...]) -> Callable[..., tuple[Any, ...]]:
    primal, gradient, schema = _primal(op, template), op.gradient, op.schema
    if isinstance(op.sharding_rule, Dimensions) and not op.checker.mutable:
        primal = partitioned(primal, op.sharding_rule, [template[index] is not None for index in schema.arrays])
    if op.vmap_rule is not None:
        primal = _with_vmap(op, template, primal)
    if gradient is None:
        return _with_jvp(op, template, primal)
    function = jax.custom_vjp(primal)

    def forward(*arrays: Any) -> tuple[Any, Any]:
        results = function(*arrays)
        bound = rebuild(template, arrays)
        saved = gradient.save(*bound, *results) if gradient.save else (*bound, *results)
        kept, places = split(op.name, saved, lambda item: isinstance(item, (jax.Array, np.ndarray)))
        likes = tuple(_likes(bound[index]) for index in schema.arrays)
        return results, (kept, _Static(places, likes))

    def backward(residuals: Any, grads: Any) -> Any:
        kept, static = residuals
        places, likes = static.values
        given = [None if grad.dtype == jax.dtypes.float0 else grad for grad in grads]
        found = arranged(schema, [_listed(k) for k in likes], gradient.backward(rebuild(places, kept), *given), _cast)
        flat: list[Any] = []
        for index, grad in zip(schema.arrays, found, strict=True):
            place_ = template[index]
            if isinstance(place_, tuple):
                flat.extend(grad if grad is not None else [None] * len(place_))
            elif place_ is not None:
                flat.append(grad)
        return tuple(flat)

    function.defvjp(forward, backward)
    return function


def _with_vmap(op: Operator, template: tuple[Any, ...], primal: Callable[..., Any]) -> Callable[..., Any]:
    run = jax.custom_batching.custom_vmap(primal)
    rule = op.vmap_rule
    assert rule is not None

    @run.def_vmap
    def batched(size: int, have: Sequence[bool], *arrays: Any) -> Any:
        flags = [any(f) if isinstance(f, tuple) else bool(f) for f in spread(template, have)]
        returned = rule(size, tuple(flags), *rebuild(template, arrays))
        found = (returned,) if op.schema.single else tuple(returned)
        return found, (True,) * len(found)

    return lambda *arrays: tuple(run(*arrays))


def _with_jvp(op: Operator, template: tuple[Any, ...], primal: Callable[..., Any]) -> Callable[..., Any]:
    function = jax.custom_jvp(primal)
    rule = op.jvp_rule

    @function.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        if rule is None:
            raise ArgumentTypeError(f"operator {op.name} has no derivative; give it one by def_vjp(backward, save=...)")
        results, tangent = rule(rebuild(template, primals), rebuild(template, tangents))
        return ((results,), (tangent,)) if op.schema.single else (tuple(results), tuple(tangent))

    return function


def _likes(value: Any) -> Any:
    if isinstance(value, tuple):
        return ("list", *(_likes(item) for item in value))
    return None if value is None else (tuple(value.shape), value.dtype)


def _listed(like: Any) -> Any:
    return [_listed(item) for item in like[1:]] if isinstance(like, tuple) and like and like[0] == "list" else like


def _cast(grad: Any, dtype: Any) -> Any:
    if not jnp.issubdtype(dtype, jnp.floating):
        return None
    return grad if grad.dtype == dtype else grad.astype(dtype)


# ---- calls ----


def bind(op: Operator) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """The function that handles calls on JAX arrays; traced functions are kept by the arguments that are no arrays."""
    op._jax_functions = {}
    params = op.schema.params
    simple = not op.checker.mutable and not any(p.kind.many or p.keyword_only for p in params)
    is_array = tuple(param.kind.is_array for param in params)
    quick: dict[tuple[Any, ...], Any] = {}  # jitted functions by the arguments that are no concrete arrays
    concrete = type(jnp.zeros(()))

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not simple or kwargs or len(args) != len(params):
            return slow(args, kwargs)
        arrays, rest = [], []
        for array, arg in zip(is_array, args, strict=True):
            if not array:
                if type(arg).__hash__ is None:
                    return slow(args, kwargs)
                rest.append((type(arg), arg))
            elif type(arg) is concrete:
                arrays.append(arg)
            else:
                return slow(args, kwargs)
        function = quick.get(tuple(rest))
        if function is not None:
            results = function(*arrays)
            return results[0] if op.schema.single else results
        found = slow(args, kwargs)
        quick[tuple(rest)] = op._jax_functions[_template(op, args)]
        return found

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "out" in kwargs and all(param.name != "out" for param in op.schema.params):
            run_on(op, (), kwargs["out"])
        bound = op.schema.bind(args, kwargs)
        if op.mixed(bound) != "jax":
            return op.dispatch(bound)
        return run_on(op, bound)

    return handle


def _template(op: Operator, bound: Sequence[Any]) -> tuple[Any, ...]:
    values = [_argument(op, param, value, []) for param, value in zip(op.schema.params, bound, strict=True)]
    return split(op.name, values, lambda item: isinstance(item, jax.Array))[1]


def run_on(op: Operator, bound: Sequence[Any], out: Any = None) -> Any:
    """Call on bound arguments of which at least one is a JAX array.

    Raises:
        ArgumentTypeError: a plain array in a mutated position, `out=`, or an argument of another kind than declared.
    """
    if out is not None:
        raise ArgumentTypeError(f"operator {op.name}: JAX arrays are immutable, so there is no out=; use the result")
    refs: list[Any] = []
    if op.checker.mutable:
        _check_references(op, bound)
    values = [_argument(op, param, value, refs) for param, value in zip(op.schema.params, bound, strict=True)]
    arrays, template = split(op.name, values, lambda item: isinstance(item, jax.Array))
    _check_devices(op, arrays)
    functions: dict[Any, Any] = op._jax_functions
    found = functions.get(template)
    if found is None:
        found = functions[template] = jax.jit(_differentiable(op, template))
    results = found(*xla.matched(arrays))
    count = len(op.schema.results)
    for ref, value in zip(refs, results[count:], strict=True):
        ref[...] = value
    return results[0] if op.schema.single else results[:count] if count else None


def _argument(op: Operator, param: Param, value: Any, refs: list[Any]) -> Any:
    if not param.kind.is_array:
        return op.scalar(param, value)
    if value is None and param.kind.optional:
        return None
    where = f"operator {op.name}, argument {param.name!r}"
    if param.kind.many:
        return tuple(_array(param, item, refs, where) for item in op.items(param, value))
    return _array(param, value, refs, where)


def _array(param: Param, value: Any, refs: list[Any], where: str) -> Any:
    is_ref = isinstance(value, jax.Ref)
    if param.mutated:
        if not is_ref:
            raise ArgumentTypeError(
                f"{where}: the operator writes it, and JAX arrays are immutable; "
                f"pass a reference, jax.new_ref(x), and read it after the call"
            )
        refs.append(value)
    if is_ref:
        return value[...]
    value = _in_numpy(value, where)
    if not isinstance(value, (jax.Array, np.ndarray, int, float)):
        raise ArgumentTypeError(f"{where}: expected an array, got a {type(value).__qualname__}")
    return jnp.asarray(value)


def _check_devices(op: Operator, arrays: Sequence[Any]) -> None:
    """Of arrays on a GPU, the error comes here; of a program that is traced for one, from the handler."""
    for array in arrays:
        if not isinstance(array, jax.core.Tracer) and any(d.platform != "cpu" for d in array.devices()):
            raise ArgumentTypeError(f"operator {op.name}: got a JAX array on a GPU; {xla_python.ADVICE}")


def _check_references(op: Operator, bound: Sequence[Any]) -> None:
    """An operator gets the values of references: one that it writes must not be another argument too."""
    seen: list[tuple[Any, Param]] = []
    for index in op.schema.arrays:
        param = op.schema.params[index]
        for value in each(bound[index]):
            if not isinstance(value, jax.Ref):
                continue
            for other, earlier in seen:
                if other is value and (param.mutated or earlier.mutated):
                    raise ArgumentTypeError(
                        f"operator {op.name}, argument {param.name!r}: it is the same reference as {earlier.name!r}, and the "
                        f"operator writes one of them; pass a copy, jax.new_ref(x[...])"
                    )
            seen.append((value, param))


def _in_numpy(value: Any, where: str) -> Any:
    """Another library's array as NumPy's; JAX copies what can be written."""
    return memory_of(value, where) if library_of(value) == "protocol" else value
