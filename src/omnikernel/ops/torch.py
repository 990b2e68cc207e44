"""An operator on torch tensors: direct calls.

In: an `Operator` and the arguments of a call. Out: its results, by the dispatcher's entry (`torch_dispatcher.py`), which is
skipped where nothing but plain dense tensors without gradients is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.autograd import forward_ad

from ..backend.places import place_of
from ..errors import ArgumentTypeError, ArgumentValueError
from .arrays import DType, state
from .declare import library_of
from .launches import results_of
from .numpy import memory_of
from .schema import each
from .torch_arrays import USABLE, TorchArray, TorchRun, check_memory, dtype_of, from_numpy
from .torch_dispatcher import MISSED, TorchBinding

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param

_C: Any = torch._C
__all__ = ["TorchBinding", "bind", "dtype_of", "from_numpy", "run_on"]


def run_on(op: Operator, bound: Sequence[Any], out: Any = None) -> Any:
    """Call on bound arguments of which at least one is a tensor; NumPy arrays among them are shared, not copied."""
    binding: TorchBinding = op._torch_binding
    values = [_torch_argument(op, param, value) for param, value in zip(op.schema.params, bound, strict=True)]
    results = binding.call(values)
    if out is None:
        return results
    made = results if isinstance(results, tuple) else (results,)
    given = each(out)
    if len(made) != len(given):
        raise ArgumentValueError(f"operator {op.name}: out= needs {len(made)} tensors, got {len(given)}")
    for target, result in zip(given, made, strict=True):
        if not isinstance(target, torch.Tensor):
            raise _not_for_out(op, target)
        if torch.is_grad_enabled() and (result.requires_grad or target.requires_grad):
            raise ArgumentTypeError(f"operator {op.name}: out= has no derivative, but an argument requires grad")
        if target.shape != result.shape or target.dtype != result.dtype:
            raise ArgumentValueError(
                f"operator {op.name}: expected out= of {result.dtype} {tuple(result.shape)}, "
                f"got {target.dtype} {tuple(target.shape)}"
            )
        target.copy_(result)
    return out


def _not_for_out(op: Operator, target: Any) -> ArgumentTypeError:
    kind = library_of(target)
    got, advice = f"a {type(target).__qualname__}", ""
    if kind == "jax":
        got, advice = "a JAX array, which is immutable", "; leave out= away and convert the result, which has DLPack"
    elif kind in ("numpy", "protocol"):
        got, advice = f"{got} of {type(target).__module__.partition('.')[0]}", "; pass torch.from_dlpack(out)"
    return ArgumentTypeError(f"operator {op.name}: out= takes tensors here, got {got}{advice}")


def _torch_argument(op: Operator, param: Param, value: Any) -> Any:
    if param.kind.is_array:
        if param.kind.many:
            return [_tensor(op, param, item) for item in op.items(param, value)]
        return _tensor(op, param, value)
    if param.kind.base == "dtype" and value is not None:
        if isinstance(value, torch.dtype):
            return value
        return dtype_of(value if type(value) is str else DType(value))
    return value.item() if type(value).__module__ == "numpy" else value


def _tensor(op: Operator, param: Param, value: Any) -> Any:
    if value is None or isinstance(value, torch.Tensor):
        return value
    if torch.compiler.is_compiling():  # Dynamo traces no more of a NumPy array than this
        return torch.as_tensor(value)
    library = library_of(value)
    if library == "protocol":
        return _from_protocol(value, f"operator {op.name}, argument {param.name!r}")
    if library != "numpy":
        raise ArgumentTypeError(
            f"operator {op.name}, argument {param.name!r}: expected an array, got a {type(value).__qualname__}"
        )
    return from_numpy(value)


def _from_protocol(value: Any, where: str) -> torch.Tensor:
    """A tensor over the memory of another library's array, on a GPU too."""
    if place_of(value) != "gpu":
        return from_numpy(memory_of(value, where))
    if not hasattr(value, "__dlpack__"):
        raise ArgumentTypeError(f"{where}: expected a tensor, got a {type(value).__qualname__} without DLPack")
    found: torch.Tensor = cast(Any, torch).from_dlpack(value)
    return found


_KEYS = _C._dispatch_keys
_PLAIN = frozenset((_KEYS(torch.empty(0)).raw_repr(),))
with torch.inference_mode():
    _PLAIN |= {_KEYS(torch.empty(0)).raw_repr()}
_TYPES = (torch.Tensor, torch.nn.Parameter)


def _undisturbed() -> bool:
    """No mode watches or transforms calls in this thread."""
    return (
        not _C._len_torch_dispatch_stack()
        and not _C._len_torch_function_stack()
        and not _C._are_functorch_transforms_active()
        and _C._get_tracing_state() is None
        and not _C._autograd._profiler_enabled()
        and forward_ad._current_level < 0
    )


def bind(op: Operator) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """Make the dispatcher's entry, and the function that handles direct calls."""
    schema, function, checker = op.schema, op.function, op.checker
    binding = op._torch_binding = TorchBinding(op)
    overload, params = binding.overload, schema.params
    arrays = tuple((i, param.strided) for i, param in enumerate(params) if param.kind.is_array)
    scalars = schema.exact
    simple = all(p.kind.base != "dtype" and not p.kind.many and not p.mutated and not p.keyword_only for p in params)
    fills = schema.fills if simple else {}
    has_dtypes = any(param.kind.base == "dtype" for param in params)
    single = schema.single
    is_compiling, grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
    keys, plain_keys, types, usable = _KEYS, _PLAIN, _TYPES, USABLE
    host = TorchRun(checker, torch.device("cpu"))  # for all calls: nothing here may be written

    def quick(args: tuple[Any, ...]) -> Any:
        """The results where that is plain; MISSED elsewhere."""
        if len(args) not in fills:
            return MISSED
        fill = fills[len(args)]
        grad = grad_enabled()
        values = [*args, *fill]
        for i, strided in arrays:
            value = values[i]
            if (
                type(value) not in types
                or keys(value).raw_repr() not in plain_keys
                or (grad and value.requires_grad)
                or not (strided or value.is_contiguous())
                or value.dtype not in usable
            ):
                return MISSED
            values[i] = TorchArray(value, i)
        for i, kind in scalars:
            if type(values[i]) is not kind:
                return MISSED
        if not _undisturbed():
            return MISSED
        before = state.run
        state.run = host if value.is_cpu else TorchRun(checker, value.device)
        try:
            returned = function(*values)
        finally:
            state.run = before
        if single and type(returned) is TorchArray and returned.source < 0:
            return returned.value
        results = results_of(schema, returned)
        check_memory(op, (*args, *fill), returned, results)
        return op.schema.packed(results)

    binding.quick = quick

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_compiling() and not has_dtypes and "out" not in kwargs:
            return overload(*args, **kwargs)
        if kwargs or len(args) not in fills:
            return slow(args, kwargs)
        found = quick(args)
        return slow(args, kwargs) if found is MISSED else found

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = dict(kwargs)
        out = named.pop("out", None) if all(p.name != "out" for p in params) else None
        bound = schema.bind(args, named)
        if is_compiling():
            return run_on(op, bound, out)
        if op.mixed(bound) != "torch":
            return op.dispatch(bound, out)
        for param, value in zip(params, bound, strict=True):
            if not param.kind.is_array:
                op.scalar(param, value)
        return run_on(op, bound, out)

    return handle
