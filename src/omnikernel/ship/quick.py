"""The fast path of prebuilt kernels: the C extension's table of calls, as for kernels that Triton compiled.

In: a call that ran, and the code that it ran. Out: calls like it go from Python's arguments straight to the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime import dispatch
from ..runtime.launch import Executable
from ..runtime.prepare import OrdinaryLaunch
from .fit import Parameter


class Quick:
    """What the C extension reads of a kernel. Each of the first three attributes has Triton's name and says: nothing to see."""

    def __init__(self, parameters: Sequence[Parameter], exact: frozenset[str]) -> None:
        """Make an empty table.

        Args:
            parameters: the kernel's.
            exact: parameters whose value, and not only kind, decides which code runs.
        """
        self.used_global_vals: dict[Any, Any] = {}
        self.pre_run_hooks: list[Any] = []
        self.device_caches: dict[Any, Any] = {}
        self._names = [p.name for p in parameters]
        self._native = dispatch.native_alone()
        if self._native is not None:
            flags = bytes(p.constant or p.name in exact for p in parameters)
            defaults = {p.name: p.default[0] for p in parameters if p.default}
            self._omnikernel_table = self._native.Table(tuple(self._names), flags, defaults)

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch if a remembered call is like this one; None where nothing was done."""
        return self._native.try_launch(self, grid, args, kwargs) if self._native is not None else None

    def remember(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, executable: Executable, runtime: Sequence[str]
    ) -> None:
        """Store what a call ran.

        Args:
            args, kwargs: the call.
            result: what `launch` returns for calls like it.
            executable: the code.
            runtime: the parameters that it takes, in order.
        """
        if self._native is None or executable.prints:
            return
        dispatch.register_tensors(self._native, args, kwargs)
        slots = self._slots([*self._names[: len(args)], *kwargs], executable, runtime)
        if slots is not None:
            plain, disjoint = dispatch.variants_of(executable)
            self._omnikernel_table.add(args, kwargs, False, result, executable, slots, plain, disjoint)

    def prepare(
        self,
        ordinary: OrdinaryLaunch,
        defaults: Mapping[str, Any],
        result: Any,
        executable: Executable,
        runtime: Sequence[str],
    ) -> Any:
        """A prepared launch in C; None where it cannot be.

        Args:
            ordinary: the launch, and what takes over where a call is of another kind.
            defaults: values of parameters that it does not give.
            result, executable, runtime: as for `remember`.
        """
        if self._native is None or executable.prints:
            return None
        names, values = tuple(ordinary.arguments), tuple(ordinary.arguments.values())
        slots = self._slots(names, executable, runtime)
        if slots is None:
            return None
        dispatch.register_tensors(self._native, values, {})
        fixed, variants = {**defaults, **ordinary.constants}, dispatch.variants_of(executable)
        try:
            return self._native.Prepared(
                self, ordinary, ordinary.grid, names, fixed, values, False, result, executable, slots, *variants, None
            )
        except ValueError:  # an argument of a kind that C does not read
            return None

    @staticmethod
    def _slots(
        names: Sequence[str], executable: Executable, runtime: Sequence[str]
    ) -> tuple[tuple[int, ...], ...] | None:
        """Where among the arguments of a call, named in order, each slot's value is; None where C cannot do it."""
        slots = []
        for name, parameter in zip(runtime, executable.artefact.parameters, strict=True):
            described = dispatch.slot_of(parameter)
            if described is None or name not in names:  # C does not encode it, or it is a default value
                return None
            slots.append((names.index(name), *described))
        return tuple(slots)
