"""The entry of an operator in torch's dispatcher, with its fake, autograd, in-place and vmap rules.

In: an `Operator`. Out: `torch.ops.namespace.name`. It is made by `torch.library.Library`; `custom_op` costs several times
more a call.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._subclasses.functional_tensor import FunctionalTensorMode

from ..errors import ArgumentTypeError, ArgumentValueError
from . import after_import
from .gradients import split
from .launches import call, results_of
from .schema import each
from .torch_arrays import FakeRun, InlineRun, TorchRun, arguments_of, check_memory
from .torch_autograd import Rules, Template, autograd_function, autograd_kernel, refuse_writes

if TYPE_CHECKING:
    from .declare import Operator

_C: Any = torch._C
MISSED = object()  # what `TorchBinding.quick` gives for a call that it does not handle


class TorchBinding:
    """The dispatcher's entry of one operator."""

    tracing = staticmethod(torch.compiler.is_dynamo_compiling)

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.quick: Callable[[tuple[Any, ...]], Any] | None = None  # a direct call on plain tensors
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
        self._rules = Rules(op)
        self._differentiated = autograd_kernel(self, self._rules)
        self.lib.impl(self.short, self.autograd, "Autograd", with_keyset=True)
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

    def autograd(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Any tensors: where none needs a gradient and nothing watches, what the kernels below would do, at once."""
        found = MISSED if kwargs or self.quick is None else self.quick(args)
        return self._differentiated(keyset, *args, **kwargs) if found is MISSED else found

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """Real tensors: run the function and its launches."""
        op = self.op
        bound = args if not kwargs and len(args) == self.plain_count else op.schema.bind(args, kwargs)
        copied: list[tuple[Any, Any]] = []
        values, named, device = arguments_of(op, bound, copied)
        if device.type == "meta":
            return self.fake(*args, **kwargs)
        run = TorchRun(op.checker, device)
        returned = call(op.function, run, values, named)
        results = results_of(op.schema, returned)
        check_memory(op, bound, returned, results)
        op.check_wrote(run)
        for target, dense in copied:
            target.copy_(dense)
        return op.schema.packed(results)

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Fake or meta tensors: run the function with launches turned off."""
        op = self.op
        bound = op.schema.bind(args, kwargs)
        values, named, device = arguments_of(op, bound, [])
        run = FakeRun(op.checker, device)
        return op.schema.packed(results_of(op.schema, call(op.fake_rule or op.function, run, values, named)))

    def functional(self, mode: Any, overload: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Under functionalisation: opaque, but for ahead-of-time programs the function's launches themselves."""
        from torch._inductor.virtualized import V

        if not V.aot_compilation:
            return mode.__torch_dispatch__(overload, types, args, kwargs)
        op = self.op
        with mode:
            bound = op.schema.bind(args, kwargs or {})
            copied: list[tuple[Any, Any]] = []
            values, named, device = arguments_of(op, bound, copied)
            results = results_of(op.schema, call(op.function, InlineRun(op.checker, device), values, named))
            for target, dense in copied:
                target.copy_(dense)
        return op.schema.packed(results)

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
        op, function = self.op, autograd_function(self)

        def call(*args: Any, **kwargs: Any) -> Any:
            refuse_writes(op, args, kwargs)
            bound = op.schema.bind(args, kwargs)
            tensors, template = split(op.name, bound, lambda item: isinstance(item, torch.Tensor))
            returned = function.apply(Template(template), *tensors)  # type: ignore[no-untyped-call]
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
                for item in each(value):
                    if item is not None:
                        torch.autograd.graph.increment_version(item)
            return overload.redispatch(keyset & after, *args, **kwargs)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            self.lib.impl(self.short, bump, "ADInplaceOrView", with_keyset=True)


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
