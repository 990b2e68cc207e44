"""The derivative of an operator on tensors: as torch's generic autograd kernel and as `torch.func` want it.

In: what a user gave to `def_vjp`. Out: the rules of a dispatcher's entry, and an autograd function for transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._library.autograd import make_autograd_impl
from torch.autograd import forward_ad

from ..errors import ArgumentTypeError
from .gradients import Slot, arranged, rebuild, split, spread
from .schema import each

if TYPE_CHECKING:
    from .declare import Operator
    from .torch_dispatcher import TorchBinding


_C: Any = torch._C
_unpack: Any = forward_ad.unpack_dual


class Rules:
    """What torch's generic autograd kernel asks for; without `def_vjp`, backward says what is missing."""

    def __init__(self, op: Operator) -> None:
        self._op = op
        self._setup_context_fn: Callable[..., Any] | None = None
        self._backward_fn: Callable[..., Any] | None = self._refuse

    def use_gradient(self) -> None:
        """Differentiate by the user's rule."""
        self._backward_fn, self._setup_context_fn = _autograd(self._op)

    def _refuse(self, ctx: Any, *grads: Any) -> Any:
        raise no_derivative(self._op.name)


def autograd_kernel(binding: TorchBinding, rules: Rules) -> Callable[..., Any]:
    """The entry's kernel for autograd: torch's generic one, which knows no tensors that are passed by keyword alone."""
    op = binding.op
    generic = make_autograd_impl(binding.overload, rules)
    by_keyword = any(param.keyword_only and param.kind.is_array for param in op.schema.params)
    apply: Any = autograd_function(binding).apply

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(op, args, kwargs)
        refuse_writes(op, args, kwargs)
        if by_keyword and torch.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs):
            bound = op.schema.bind(args, kwargs)
            tensors, template = split(op.name, bound, lambda item: isinstance(item, torch.Tensor))
            return apply(Template(template), *tensors)
        return generic(keyset, *args, **kwargs)

    return kernel


def refuse_writes(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """What an operator writes in place has no derivative: a gradient would pass it by, and be wrong.

    Raises:
        ArgumentTypeError: it writes its arguments, and one of them requires grad.
    """
    if not op.checker.mutable or not torch.is_grad_enabled() or not _C._any_requires_grad(*args, **kwargs):
        return
    params = op.schema.params
    written = ", ".join(repr(params[i].name) for i in sorted(op.checker.mutable))
    bound = zip(params, op.schema.bind(args, dict(kwargs)), strict=True)
    name = next(param.name for param, value in bound if _C._any_requires_grad(value))
    raise ArgumentTypeError(
        f"operator {op.name}: it writes {written} in place, which has no derivative, and {name!r} requires grad; call it under "
        f"torch.no_grad(), or on {name}.detach()"
    )


def _refuse_tangents(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for value in (*args, *kwargs.values()):
        for item in each(value):
            if isinstance(item, torch.Tensor) and _unpack(item).tangent is not None:
                raise no_forward_mode(op.name)


def no_forward_mode(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"operator {name} has no forward-mode derivative in torch; use reverse mode (torch.func.grad, vjp, jacrev)"
    )


class Template:
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


def no_derivative(name: str) -> RuntimeError:
    return RuntimeError(f"operator {name} has no derivative; give it one by def_vjp(backward, save=...)")


def autograd_function(binding: TorchBinding) -> type[torch.autograd.Function]:
    """The operator as an autograd function: its first argument is the template, the others are tensors."""
    op = binding.op

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(template: Template, *tensors: torch.Tensor) -> Any:
            return binding.call(rebuild(template.places, tensors))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if op.gradient is not None:
                ctx.places = inputs[0].places
                _save(op, ctx, rebuild(inputs[0].places, inputs[1:]), output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if op.gradient is None:
                raise no_derivative(op.name)
            found = dict(zip(op.schema.arrays, _gradients(op, ctx, grads), strict=True))
            flat: list[Any] = []
            for index, place in enumerate(ctx.places):
                flat.extend(_flat(place, found.get(index)))
            return (None, *flat)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise no_forward_mode(op.name)

        @staticmethod
        def vmap(info: Any, in_dims: Any, template: Template, *tensors: torch.Tensor) -> Any:
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
