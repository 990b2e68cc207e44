"""Operators on JAX arrays that are spread over devices, under plain `jit`.

In: names of dimensions. Out: a function that XLA's partitioner runs on each device's part, without gathering first, along
every dimension that the names allow; the others are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning

from .sharding import Dimensions
from .xla import varies


def partitioned(run: Callable[..., Any], dimensions: Dimensions, present: Sequence[bool]) -> Callable[..., Any]:
    """A function of arrays that knows how it can be split.

    Args:
        run: the function on whole arrays; on parts of them it gives the same part of the results.
        dimensions: the names, for every array parameter.
        present: which array parameters are given.
    """

    def call(*arrays: Any) -> Any:
        if jax.device_count() == 1 or any(varies(array) for array in arrays):  # in shard_map each part is whole
            return run(*arrays)
        ranks = iter(array.ndim for array in arrays)
        named = dimensions.named([next(ranks) if there else None for there in present])
        split = custom_vmap(_split(run, named))

        @split.def_vmap
        def rule(size: int, batched: Sequence[bool], *values: Any) -> Any:
            found = jax.vmap(run, in_axes=[0 if one else None for one in batched], axis_size=size)(*values)
            return found, (True,) * len(found)

        return split(*arrays)

    return call


def _split(run: Callable[..., Any], named: Dimensions) -> Callable[..., Any]:
    sides = (named.arrays, named.results)
    text = " -> ".join(", ".join(" ".join(names) for names in side) for side in sides)
    free = named.free()
    order = dict.fromkeys(name for side in sides for names in side for name in names)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        axes: dict[str, Any] = {}
        for names, argument in zip(named.arrays, arguments, strict=True):
            for name, axis in zip(names, argument.sharding.spec, strict=False):
                if axis is not None and name in free and axis not in axes.values():
                    axes.setdefault(name, axis)

        spec: Any = jax.sharding.PartitionSpec

        def place(names: tuple[str, ...]) -> Any:
            return jax.sharding.NamedSharding(mesh, spec(*(axes.get(name) for name in names)))

        return mesh, run, tuple(map(place, named.results)), tuple(map(place, named.arrays))

    make: Any = custom_partitioning
    whole: Any = make(run)
    whole.def_partition(
        partition=partition,
        sharding_rule=text,
        need_replication_factors=tuple(name for name in order if name not in free),
    )
    return lambda *arrays: tuple(whole(*arrays))
