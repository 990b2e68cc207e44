"""How the dimensions of an operator's arrays go together, and what follows for arrays that are spread over devices.

In: `"... n, n -> ... n"`, or a user's own rule for DTensors, or none. Out: the rule registered with torch, once
`torch.distributed.tensor` is there; names of dimensions for `partition.py`, which tells XLA. Without a rule inputs are
replicated: that costs communication, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import OmnikernelError
from .schema import Schema, SchemaError, each

_REST = "..."


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Names of the dimensions of array parameters and results. Arrays may be split along all of them but `whole`."""

    arrays: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]
    whole: tuple[str, ...]

    def named(self, ranks: Sequence[int | None]) -> Dimensions:
        """The same for arrays of these ranks (None: there is no array): `...` stands for as many names as it takes.

        Raises:
            OmnikernelError: an array of another rank.
        """
        rest: int | None = None
        for names, rank in zip(self.arrays, ranks, strict=True):
            if rank is None:
                continue
            more = rank - len(names) + 1 if _REST in names else 0
            fits = more >= 0 and rest in (None, more) if _REST in names else rank == len(names)
            if not fits:
                raise OmnikernelError(f"def_sharding says {' '.join(names)!r} of an array of {rank} dimensions")
            rest = more if _REST in names else rest

        def spell(names: tuple[str, ...]) -> tuple[str, ...]:
            leading = tuple(f"rest{i}" for i in range(rest or 0))
            return tuple(one for name in names for one in (leading if name == _REST else (name,)))

        kept = (names for names, rank in zip(self.arrays, ranks, strict=True) if rank is not None)
        return Dimensions(tuple(map(spell, kept)), tuple(map(spell, self.results)), self.whole)

    def free(self) -> tuple[str, ...]:
        """The names along which every result and some array can be split."""
        found = dict.fromkeys(name for names in self.arrays for name in names)
        return tuple(n for n in found if n not in self.whole and all(n in names for names in self.results))


def read_dimensions(schema: Schema, text: str, whole: Sequence[str]) -> Dimensions:
    """Read `"a b, b -> a b"`: the dimensions of every array parameter, in order, then of every result.

    Raises:
        SchemaError: another number of arrays than the operator has, or a name that is not there.
    """
    inputs, arrow, outputs = text.partition("->")
    arrays = tuple(tuple(part.split()) for part in inputs.split(","))
    results = tuple(tuple(part.split()) for part in outputs.split(",")) if outputs.strip() else ()
    names = {name for one in (*arrays, *results) for name in one}
    expected = (len(schema.arrays), len(schema.results))
    if not arrow or (len(arrays), len(results)) != expected or any(schema.params[i].kind.many for i in schema.arrays):
        raise SchemaError(
            f"operator {schema.name}: expected the dimensions of {expected[0]} arrays and {expected[1]} results, such as "
            f"'... n, n -> ... n', got {text!r}"
        )
    wrong = next((name for name in names if name != _REST and not name.isidentifier()), None)
    unknown = wrong or next((name for name in whole if name not in names), None)
    if unknown is not None:
        raise SchemaError(f"operator {schema.name}: {unknown!r} names no dimension in {text!r}")
    return Dimensions(arrays, results, tuple(whole))


def register(overload: Any, schema: Schema, rule: Callable[..., Any] | Dimensions | None) -> None:
    """Register a rule with torch, or replication where it is None. A later rule replaces an earlier one.

    Args:
        overload: the dispatcher's entry.
        schema: the operator's.
        rule: called as torch's `register_sharding` says, or names of dimensions.
    """
    from torch import _C
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor.experimental import register_sharding

    def specs_of(args: Any, kwargs: Any) -> list[tuple[int, Any]]:
        """The DTensors among the arguments, those in lists too, with the number of their parameter."""
        bound = enumerate(schema.bind(args, kwargs))
        items = ((i, item) for i, value in bound for item in each(value))
        return [(i, item) for i, item in items if isinstance(item, DTensorSpec)]

    def replicated(*args: Any, **kwargs: Any) -> Any:
        return [([Replicate()] * len(schema.results), [Replicate() for _ in specs_of(args, kwargs)])]

    def along_names(*args: Any, **kwargs: Any) -> Any:
        assert isinstance(rule, Dimensions)
        specs = dict(specs_of(args, kwargs))
        named = rule.named([len(specs[i].shape) if i in specs else None for i in schema.arrays])
        of = dict(zip(specs, named.arrays, strict=True))

        def place(names: tuple[str, ...], name: str) -> Any:
            return Shard(names.index(name)) if name in names else Replicate()

        found = replicated(*args, **kwargs)
        for name in named.free():
            found.append(([place(names, name) for names in named.results], [place(of[i], name) for i in of]))
        return found

    chosen = along_names if isinstance(rule, Dimensions) else rule or replicated

    def in_place(*args: Any, **kwargs: Any) -> Any:
        """What is written stays where it is: a part that was moved for the call would be written in vain."""
        found = chosen(*args, **kwargs)
        for position, (index, spec) in enumerate(specs_of(args, kwargs)):
            if schema.params[index].mutated:
                kept = [spec.placements[0]] if len(set(spec.placements)) == 1 else []
                found = [way for way in found if [p for p in way[1] if p is not None][position] in kept]
                if not found:
                    raise OmnikernelError(
                        f"operator {schema.name}: it writes {schema.params[index].name!r}, a DTensor placed {spec.placements}, and "
                        f"no rule says that its parts can be written apart; give one by def_sharding, or redistribute it first"
                    )
        return found

    writes = any(param.mutated for param in schema.params)
    register_sharding(overload)(in_place if writes else chosen)
    # torch keeps what an earlier rule said of arguments that it has seen.
    known: Any = DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding
    for forget in (getattr(known, "cache_clear", None), getattr(_C, "_clear_DTensor_sharding_propagator_cache", None)):
        if forget is not None:
            forget()
