"""A sharding rule for DTensors.

In: the dispatcher's entry and a user's rule. Out: the rule registered with torch. An operator without a rule gets one that
replicates its inputs, so a missing rule costs communication, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register(overload: Any, rule: Callable[..., Any] | None, results: int, params: int) -> None:
    """Register the rule, or replication where it is None.

    Args:
        overload: the dispatcher's entry.
        rule: called as torch's `register_sharding` says.
        results: how many results the operator has.
        params: how many parameters.
    """
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.experimental import register_sharding

    def replicated(*args: Any, **kwargs: Any) -> Any:
        from torch.distributed.tensor._dtensor_spec import DTensorSpec

        given = [*args, *(None for _ in range(params - len(args)))]
        places = [Replicate() if isinstance(value, DTensorSpec) else None for value in given]
        return [([Replicate()] * results, places)]

    register_sharding(overload)(rule or replicated)
