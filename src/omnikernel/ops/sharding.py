"""Sharding rules for DTensors.

In: the dispatcher's entry of an operator, and a user's rule or none. Out: the rule registered with torch, once
`torch.distributed.tensor` is there. Without a rule inputs are replicated: that costs communication, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register(overload: Any, rule: Callable[..., Any] | None, results: int) -> None:
    """Register a rule, or replication where it is None. A later rule replaces an earlier one.

    Args:
        overload: the dispatcher's entry.
        rule: called as torch's `register_sharding` says.
        results: how many results the operator has.
    """
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor.experimental import register_sharding

    def replicated(*args: Any, **kwargs: Any) -> Any:
        places = [Replicate() if isinstance(value, DTensorSpec) else None for value in args]
        return [([Replicate()] * results, places)]

    register_sharding(overload)(rule or replicated)
