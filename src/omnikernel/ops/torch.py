"""An operator on torch tensors: an entry of the dispatcher, with its fake, autograd, in-place and vmap rules.

In: an `Operator`. Out: `torch.ops.namespace.name`, and a handler of direct calls that skips the dispatcher where nothing
but plain dense tensors without gradients is involved. The entry is made by `torch.library.Library`; `custom_op` costs
several times more a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._library.autograd import make_autograd_impl
from torch._subclasses.functional_tensor import FunctionalTensorMode

from ..backend.places import place_of
from ..errors import ArgumentTypeError, ArgumentValueError
from ..runtime.arrays import DTYPES as TRITON_DTYPES
from . import after_import
from .arrays import Array, DType, state
from .declare import library_of
from .gradients import Slot, arranged, rebuild, split, spread
from .launches import AliasError, Checker, EagerRun, OffMixin, call, plain, results_of
from .numpy import memory_of

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param

_C: Any = torch._C
_NAMES: dict[torch.dtype, DType] = {
    dtype: DType(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
_DTYPES = {str(name): dtype for dtype, name in _NAMES.items()}  # plain strings: Dynamo reads them


_USABLE = frozenset(dtype for name, dtype in _DTYPES.items() if name in TRITON_DTYPES)


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype of a name.

    Raises:
        ArgumentTypeError: torch has none of this name.
    """
    found = _DTYPES.get(name)
    if found is None:
        raise ArgumentTypeError(f"torch has no dtype named {name!r}")
    return found


class TorchArray(Array):
    """A tensor inside an operator's function."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """The number of elements."""
        size: int = self.value.numel()
        return size

    @property
    def dtype(self) -> DType:
        """The name of the dtype."""
        return _NAMES[self.value.dtype]

    def stride(self, dimension: int) -> int:
        """The step along a dimension, in elements."""
        step: int = self.value.stride(dimension)
        return step


class TorchRun(EagerRun):
    """A call on tensors of one device."""

    __slots__ = ("device",)

    def __init__(self, checker: Checker, device: torch.device) -> None:
        self.checker = checker
        self.launched = False
        self.wrote = frozenset()
        self.device = device

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new tensor."""
        return TorchArray(torch.empty(shape, dtype=dtype_of(dtype), device=self.device))

    def empty_like(self, array: Array) -> Array:
        """A new dense tensor."""
        value = array.value
        return TorchArray(torch.empty_like(value, memory_format=torch.contiguous_format))

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """A new tensor of zeros."""
        return TorchArray(torch.zeros(shape, dtype=dtype_of(dtype), device=self.device))


class FakeRun(OffMixin, TorchRun):
    """The same with launches turned off: for fake and meta tensors, also of symbolic sizes."""

    __slots__ = ()


class InlineRun(TorchRun):
    """Launches become part of the traced graph, for programs that must hold their kernels (AOTInductor)."""

    __slots__ = ()

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Trace a launch as `torch.library.wrap_triton` does, heuristics evaluated now."""
        names = kernel.arg_names
        values = [plain(arg) for arg in args]
        named = {name: plain(value) for name, value in kwargs.items()}
        while hasattr(kernel, "values") and not hasattr(kernel, "params"):
            for name, choose in kernel.values.items():
                named[name] = choose({**dict(zip(names, values, strict=False)), **named})
            kernel = kernel.fn
        wrap: Any = torch.library.wrap_triton(kernel)
        wrap[grid](*values, **named)


def _wrap(op: Operator, bound: Sequence[Any], copied: list[tuple[Any, Any]]) -> tuple[list[Any], dict[str, Any], Any]:
    """Arguments of the function: dense arrays where the parameter is not strided, and the device of the first."""
    args, kwargs, device = [], {}, None
    for index, (param, value) in enumerate(zip(op.schema.params, bound, strict=True)):
        wrapped: Any
        if not param.kind.is_array:
            wrapped = op.scalar(param, value)
        elif value is None and param.kind.optional:
            wrapped = None
        elif param.kind.many:
            wrapped = [_array(op, index, param, item, copied) for item in value]
            device = _same_device(op, param, wrapped, device)
        else:
            wrapped = _array(op, index, param, value, copied)
            device = _same_device(op, param, [wrapped], device)
        if param.keyword_only:
            kwargs[param.name] = wrapped
        else:
            args.append(wrapped)
    return args, kwargs, device


def _array(op: Operator, index: int, param: Param, value: Any, copied: list[tuple[Any, Any]]) -> TorchArray:
    where = f"operator {op.name}, argument {param.name!r}"
    if not isinstance(value, torch.Tensor):
        raise ArgumentTypeError(f"{where}: expected a tensor, got a {type(value).__qualname__}")
    if value.layout != torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise ArgumentTypeError(f"{where}: expected a strided tensor, got one of layout {layout}; pass .to_dense()")
    if value.dtype not in _USABLE:
        raise ArgumentTypeError(
            f"{where}: expected a dtype that Triton has, got {value.dtype}; convert it first"
            + (", e.g. by torch.view_as_real" if value.is_complex() else "")
        )
    if param.strided or value.is_contiguous():
        return TorchArray(value, index)
    dense = value.contiguous()
    if param.mutated:
        copied.append((value, dense))
    return TorchArray(dense, index)


def _same_device(op: Operator, param: Param, arrays: Sequence[TorchArray], device: Any) -> Any:
    for array in arrays:
        here = array.value.device
        if device is not None and here != device:
            raise ArgumentTypeError(
                f"operator {op.name}, argument {param.name!r}: expected a tensor on {device}, as the ones before, "
                f"got one on {here}; move it with .to({str(device)!r})"
            )
        device = here
    return device


class TorchBinding:
    """The dispatcher's entry of one operator."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.namespace, _, self.short = op.name.partition("::")
        self.lib: Any = cast(Any, torch.library.Library)(self.namespace, "FRAGMENT")
        tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
        self.lib.define(self.short + op.schema.torch(), tags=tags)
        self.overload: Any = getattr(getattr(torch.ops, self.namespace), self.short).default
        self.plain_count = -1 if any(p.keyword_only for p in op.schema.params) else len(op.schema.params)
        self.lib.impl(self.short, self.eager, "CompositeExplicitAutograd")
        self.lib._register_fake(self.short, self.fake)
        self._register_version_bump()
        self.lib.impl(self.short, self._transformed(), "FuncTorchDynamicLayerFrontMode")
        self.lib._register_torch_dispatch_rule(self.short, FunctionalTensorMode, self.functional)
        self._rules = _Rules(op)
        self.lib.impl(self.short, make_autograd_impl(self.overload, self._rules), "Autograd", with_keyset=True)
        after_import.when_loaded("torch.distributed.tensor", self._shard)
        self.refresh()

    def refresh(self) -> None:
        """Take over what a user added after the declaration.

        Raises:
            ArgumentTypeError: a derivative of an operator that writes its arguments.
        """
        op = self.op
        if op.gradient is not None and op.checker.mutable:
            raise ArgumentTypeError(
                f"operator {op.name}: it mutates its arguments, so it has no gradient; return new arrays instead"
            )
        if op.gradient is not None:
            self._rules.use_gradient()
        if op.sharding_rule is not None:
            after_import.when_loaded("torch.distributed.tensor", self._shard)

    def _shard(self) -> None:
        from .sharding import register

        register(self.overload, self.op.schema, self.op.sharding_rule)

    # ---- kernels of the dispatcher ----

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Real tensors: run the function and its launches."""
        op = self.op
        bound = args if not kwargs and len(args) == self.plain_count else op.schema.bind(args, kwargs)
        copied: list[tuple[Any, Any]] = []
        values, named, device = _wrap(op, bound, copied)
        if device.type == "meta":
            return self.fake(*args, **kwargs)
        run = TorchRun(op.checker, device)
        returned = call(op.function, run, values, named)
        results = results_of(op.schema, returned)
        _check_memory(op, bound, returned, results)
        op.check_wrote(run)
        for target, dense in copied:
            target.copy_(dense)
        return packed(op, results)

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Fake or meta tensors: run the function with launches turned off."""
        op = self.op
        bound = op.schema.bind(args, kwargs)
        values, named, device = _wrap(op, bound, [])
        run = FakeRun(op.checker, device)
        return packed(op, results_of(op.schema, call(op.fake_rule or op.function, run, values, named)))

    def functional(self, mode: Any, overload: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Under functionalisation: opaque, but for ahead-of-time programs the function's launches themselves."""
        from torch._inductor.virtualized import V

        if not V.aot_compilation:
            return mode.__torch_dispatch__(overload, types, args, kwargs)
        op = self.op
        with mode:
            bound = op.schema.bind(args, kwargs or {})
            copied: list[tuple[Any, Any]] = []
            values, named, device = _wrap(op, bound, copied)
            results = results_of(op.schema, call(op.function, InlineRun(op.checker, device), values, named))
            for target, dense in copied:
                target.copy_(dense)
        return packed(op, results)

    def vmap(self, size: int, dims: Sequence[Any], bound: Sequence[Any]) -> tuple[Any, Any]:
        """The user's rule, or a call a slice. Results have the new axis in front."""
        op = self.op
        if op.vmap_rule is not None:
            front = [_to_front(value, dim) for value, dim in zip(bound, dims, strict=True)]
            returned = op.vmap_rule(size, tuple(_batched(dim) for dim in dims), *front)
            return returned, 0 if op.schema.single else (0,) * len(op.schema.results)
        for index in op.checker.mutable:
            if not _batched(dims[index]):
                raise ArgumentValueError(
                    f"operator {op.name} under vmap: it writes {op.schema.params[index].name!r}, which has no batch "
                    f"dimension, in every call; pass one with it"
                )
        calls = [self.call([_slice(v, d, i) for v, d in zip(bound, dims, strict=True)]) for i in range(size)]
        if not op.schema.results:
            return None, None
        if op.schema.single:
            return torch.stack(calls), 0
        return tuple(torch.stack(column) for column in zip(*calls, strict=True)), (0,) * len(op.schema.results)

    def call(self, bound: Sequence[Any]) -> Any:
        """Call the dispatcher's entry on bound arguments."""
        named = {p.name: v for p, v in zip(self.op.schema.params, bound, strict=True) if p.keyword_only}
        return self.overload(*_positional(self.op, bound), **named)

    def _transformed(self) -> Callable[..., Any]:
        """Under `torch.func` transforms: an autograd function, which knows how to be differentiated and batched."""
        op, function = self.op, _function(self)

        def call(*args: Any, **kwargs: Any) -> Any:
            bound = op.schema.bind(args, kwargs)
            tensors, template = split(op.name, bound, lambda item: isinstance(item, torch.Tensor))
            returned = function.apply(_Template(template), *tensors)  # type: ignore[no-untyped-call]
            return returned

        return call

    def _register_version_bump(self) -> None:
        """Autograd must know of writes in place: whoever saved the array before may not use it any more."""
        mutable = sorted(self.op.checker.mutable)
        if not mutable:
            return
        op, overload, after = self.op, self.overload, _C._after_ADInplaceOrView_keyset

        def bump(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            bound = op.schema.bind(args, kwargs)
            for index in mutable:
                value = bound[index]
                for item in value if isinstance(value, (tuple, list)) else (value,):
                    if item is not None:
                        torch.autograd.graph.increment_version(item)
            return overload.redispatch(keyset & after, *args, **kwargs)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            self.lib.impl(self.short, bump, "ADInplaceOrView", with_keyset=True)


class _Rules:
    """What torch's generic autograd kernel asks for; without `def_vjp`, backward says what is missing."""

    def __init__(self, op: Operator) -> None:
        self._op = op
        self._setup_context_fn: Callable[..., Any] | None = None
        self._backward_fn: Callable[..., Any] | None = self._refuse

    def use_gradient(self) -> None:
        """Differentiate by the user's rule."""
        self._backward_fn, self._setup_context_fn = _autograd(self._op)

    def _refuse(self, ctx: Any, *grads: Any) -> Any:
        raise _no_derivative(self._op.name)


def packed(op: Operator, results: tuple[Any, ...]) -> Any:
    """The results as the schema says: one, a tuple, or None."""
    return results[0] if op.schema.single else results if results else None


def _check_memory(op: Operator, bound: Sequence[Any], returned: Any, results: Sequence[Any]) -> None:
    """A result that the function made by other means than `empty` may still be a view of an input."""
    if all(isinstance(item, TorchArray) for item in (returned if isinstance(returned, (tuple, list)) else (returned,))):
        return
    inputs = {}
    for param, value in zip(op.schema.params, bound, strict=True):
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, torch.Tensor) and item.numel():
                inputs[item.untyped_storage().data_ptr()] = param.name
    for index, result in enumerate(results):
        name = inputs.get(result.untyped_storage().data_ptr()) if result.numel() else None
        if name is not None:
            raise AliasError(
                f"operator {op.name}: result {index} shares memory with the input {name!r}; return a new array, or "
                f"declare mutates=({name!r},) and -> None"
            )


def _batched(dim: Any) -> bool:
    return any(d is not None for d in dim) if isinstance(dim, (tuple, list)) else dim is not None


def _to_front(value: Any, dim: Any) -> Any:
    if isinstance(dim, (tuple, list)):
        return [_to_front(v, d) for v, d in zip(value, dim, strict=True)]
    return value if dim is None else value.movedim(dim, 0)


def _slice(value: Any, dim: Any, index: int) -> Any:
    if isinstance(dim, (tuple, list)):
        return [_slice(v, d, index) for v, d in zip(value, dim, strict=True)]
    return value if dim is None else value.select(dim, index)


def _positional(op: Operator, bound: Sequence[Any]) -> list[Any]:
    return [value for value, param in zip(bound, op.schema.params, strict=True) if not param.keyword_only]


# ---- autograd ----


class _Template:
    """The arguments that are no tensors, as one opaque argument."""

    __slots__ = ("places",)

    def __init__(self, places: tuple[Any, ...]) -> None:
        self.places = places


def _autograd(op: Operator) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`backward` and `setup_context` as `torch.library.register_autograd` takes them."""
    schema = op.schema

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Mapping[str, Any] | None = None) -> None:
        _save(op, ctx, schema.bind(inputs, dict(keyword_only_inputs or {})), output)

    def backward(ctx: Any, *grads: Any) -> Any:
        found = _gradients(op, ctx, grads)
        placed: list[Any] = [None] * sum(not param.keyword_only for param in schema.params)
        for index, grad in zip(schema.arrays, found, strict=True):
            placed[index] = grad
        return tuple(placed)

    return backward, setup


def _save(op: Operator, ctx: Any, bound: Sequence[Any], output: Any) -> None:
    """Keep what the user's `save` names, and shapes and dtypes for the check of the gradients."""
    gradient = op.gradient
    assert gradient is not None
    outputs = tuple(output) if isinstance(output, (tuple, list)) else (output,)
    saved = gradient.save(*bound, *outputs) if gradient.save else (*bound, *outputs)
    arrays, ctx.template = split(op.name, saved, lambda item: isinstance(item, torch.Tensor))
    ctx.save_for_backward(*arrays)
    ctx.likes = [_likes(bound[index]) for index in op.schema.arrays]
    ctx.floating = [result.is_floating_point() for result in outputs]


def _gradients(op: Operator, ctx: Any, grads: Sequence[Any]) -> list[Any]:
    gradient = op.gradient
    assert gradient is not None
    saved = rebuild(ctx.template, ctx.saved_tensors)
    given = [grad if floating else None for grad, floating in zip(grads, ctx.floating, strict=True)]
    return arranged(op.schema, ctx.likes, gradient.backward(saved, *given), _cast)


def _no_derivative(name: str) -> RuntimeError:
    return RuntimeError(f"operator {name} has no derivative; give it one by def_vjp(backward, save=...)")


def _function(binding: TorchBinding) -> type[torch.autograd.Function]:
    """The operator as an autograd function: its first argument is the template, the others are tensors."""
    op = binding.op

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(template: _Template, *tensors: torch.Tensor) -> Any:
            return binding.call(rebuild(template.places, tensors))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if op.gradient is not None:
                ctx.places = inputs[0].places
                _save(op, ctx, rebuild(inputs[0].places, inputs[1:]), output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if op.gradient is None:
                raise _no_derivative(op.name)
            found = dict(zip(op.schema.arrays, _gradients(op, ctx, grads), strict=True))
            flat: list[Any] = []
            for index, place in enumerate(ctx.places):
                flat.extend(_flat(place, found.get(index)))
            return (None, *flat)

        @staticmethod
        def vmap(info: Any, in_dims: Any, template: _Template, *tensors: torch.Tensor) -> Any:
            return binding.vmap(
                info.batch_size, spread(template.places, in_dims[1:]), rebuild(template.places, tensors)
            )

    return Function


def _flat(place: Any, grad: Any) -> list[Any]:
    """Gradients in the order of the tensors of a template."""
    if isinstance(place, tuple):
        return [one for p, g in zip(place, grad or [None] * len(place), strict=True) for one in _flat(p, g)]
    return [grad] if isinstance(place, Slot) else []


def _likes(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_likes(item) for item in value]
    return None if value is None else (tuple(value.shape), value.dtype)


def _cast(grad: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    if not dtype.is_floating_point:
        return None
    return grad if grad.dtype == dtype else grad.to(dtype)


# ---- direct calls ----


def run_on(op: Operator, bound: Sequence[Any], out: Any = None) -> Any:
    """Call on bound arguments of which at least one is a tensor; NumPy arrays among them are shared, not copied."""
    binding: TorchBinding = op._torch_binding
    values = [_torch_argument(op, param, value) for param, value in zip(op.schema.params, bound, strict=True)]
    results = binding.call(values)
    if out is None:
        return results
    made = results if isinstance(results, tuple) else (results,)
    given = out if isinstance(out, (tuple, list)) else (out,)
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
        if isinstance(value, (tuple, list)):
            return [_torch_argument(op, param, item) for item in value]
        if value is None or isinstance(value, torch.Tensor):
            return value
        if library_of(value) == "protocol":
            return _from_protocol(value, f"operator {op.name}, argument {param.name!r}")
        return from_numpy(value)
    if param.kind.base == "dtype" and value is not None:
        if isinstance(value, torch.dtype):
            return value
        return dtype_of(value if type(value) is str else DType(value))
    return value.item() if type(value).__module__ == "numpy" else value


def _from_protocol(value: Any, where: str) -> torch.Tensor:
    """A tensor over the memory of another library's array, on a GPU too."""
    if place_of(value) != "gpu":
        return from_numpy(memory_of(value, where))
    if not hasattr(value, "__dlpack__"):
        raise ArgumentTypeError(f"{where}: expected a tensor, got a {type(value).__qualname__} without DLPack")
    found: torch.Tensor = cast(Any, torch).from_dlpack(value)
    return found


def from_numpy(value: Any) -> torch.Tensor:
    """A tensor over the memory of a NumPy array; ml_dtypes go by their bits."""
    import numpy as np

    dtype = _DTYPES.get(DType(value.dtype))
    if dtype is None:
        raise ArgumentTypeError(f"torch has no dtype {value.dtype}; convert the NumPy array first")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        if value.dtype.isbuiltin == 1:
            return torch.from_numpy(value)
        return torch.from_numpy(value.view(np.dtype(f"i{value.dtype.itemsize}"))).view(dtype)


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
    keys, plain_keys, types, usable = _KEYS, _PLAIN, _TYPES, _USABLE

    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_compiling() and not has_dtypes and "out" not in kwargs:
            return overload(*args, **kwargs)
        fill = fills.get(len(args))
        if fill is None or kwargs:
            return slow(args, kwargs)
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
                return slow(args, kwargs)
            values[i] = TorchArray(value, i)
        for i, kind in scalars:
            if type(values[i]) is not kind:
                return slow(args, kwargs)
        if not _undisturbed():
            return slow(args, kwargs)
        before = state.run
        state.run = TorchRun(checker, value.device)
        try:
            returned = function(*values)
        finally:
            state.run = before
        if single and type(returned) is TorchArray and returned.source < 0:
            return returned.value
        results = results_of(schema, returned)
        _check_memory(op, (*args, *fill), returned, results)
        return packed(op, results)

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
