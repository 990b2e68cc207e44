"""An operator called inside the function of another: its function runs there, on the same arrays, whatever the library.

In: the `Run` of the outer call, and bound arguments of the inner one. Out: arrays of the outer function. No framework sees
the inner call, so what it writes in place is held against both declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentTypeError, OmnikernelError
from .arrays import Array, state
from .launches import EagerRun, MutationError, OffMixin, Run, call, checked_results

if TYPE_CHECKING:
    from .declare import Operator
    from .schema import Param


def run_inside(op: Operator, bound: Sequence[Any]) -> Any:
    """Call an operator on arguments of which at least one is an `Array` of the call that runs in this thread.

    Raises:
        MutationError: it writes a parameter of the outer operator that is not declared as mutated there.
        ArgumentTypeError: an argument of another kind than declared.
    """
    outer = state.run
    if outer is None:
        raise OmnikernelError(
            f"operator {op.name}: got an array from inside an operator's function after that function had returned"
        )
    inner = outer.inside(op.checker)
    copied: list[tuple[Array, Array]] = []
    values = list(_arguments(op, bound, outer, copied))
    args, kwargs = op.schema.arguments(values)
    off = isinstance(inner, OffMixin)
    function = op.fake_rule if off and op.fake_rule is not None else op.function
    items = checked_results(op.schema, call(function, inner, args, kwargs))
    if not off and isinstance(inner, EagerRun) and isinstance(outer, EagerRun) and inner.launched:
        op.check_wrote(inner)
        outer.launched = True
    for target, dense in copied:
        outer.assign(target, dense)
    results = tuple(item if isinstance(item, Array) else outer.wrap(item) for item in items)
    return op.schema.packed(results)


def _arguments(op: Operator, bound: Sequence[Any], outer: Run, copied: list[tuple[Array, Array]]) -> Iterator[Any]:
    for index, (param, value) in enumerate(zip(op.schema.params, bound, strict=True)):
        if not param.kind.is_array:
            yield op.scalar(param, value)
        elif value is None and param.kind.optional:
            yield None
        elif param.kind.many:
            yield [_argument(op, index, param, item, outer, copied) for item in op.items(param, value)]
        else:
            yield _argument(op, index, param, value, outer, copied)


def _argument(
    op: Operator, index: int, param: Param, value: Any, outer: Run, copied: list[tuple[Array, Array]]
) -> Array:
    if not isinstance(value, Array) and not hasattr(value, "shape"):
        raise ArgumentTypeError(
            f"operator {op.name}, argument {param.name!r}: expected an array, got a {type(value).__qualname__}"
        )
    array = value if isinstance(value, Array) else outer.wrap(value)
    if param.mutated and array.source >= 0:
        _allow(op, param, outer, array.source)
    dense = array if param.strided else outer.dense(array)
    if param.mutated and dense is not array:
        copied.append((array, dense))
    return dense.seen_as(index)


def _allow(op: Operator, param: Param, outer: Run, source: int) -> None:
    """Note that a parameter of the outer operator is written, or say that it may not be."""
    schema = outer.checker.schema
    if source not in outer.checker.mutable:
        name = schema.params[source].name
        raise MutationError(
            f"operator {schema.name}: it calls {op.name}, which writes its {param.name!r}, here the parameter {name!r} of "
            f"{schema.name}, but that is not declared; add mutates=({name!r},), or give it a new array"
        )
    outer.note(source)
