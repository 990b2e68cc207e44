"""Runs a kernel in every way there is and compares each with what plain NumPy says.

The ways: the launch as a user writes it, the code compiled for disjoint arguments (where the test says that they are),
the code compiled for any arguments, and the NumPy reference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnikernel import pipeline
from omnikernel.ir.types import Scalar
from omnikernel.runtime.launch import Executable

Arguments = dict[str, Any]


class _Forced(Executable):
    """Runs the variant that its artefact is, whatever the arguments."""

    def is_disjoint(self, slots: Any, views: Any) -> bool:
        return self.artefact.options.disjoint


def check(
    kernel: Any,
    make: Callable[[], Arguments],
    expect: Callable[[Arguments], None],
    *,
    grid: Sequence[int] = (1,),
    disjoint: bool = True,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> None:
    """Compare a kernel with its plain meaning, in every way.

    Args:
        kernel: a `triton.jit` function.
        make: fresh arguments by name (arrays may overlap), the same each time.
        expect: changes the arrays of such arguments as the kernel should.
        grid: programs along x, y, z.
        disjoint: no written array overlaps another one.
        rtol, atol: for floats; bit for bit where both are 0 (any NaN equals any other).
    """
    want = make()
    expect(want)
    launched = make()
    compiled = kernel[tuple(grid)](**launched)
    text = compiled.asm["ttir"]
    compare("launch", want, launched, rtol, atol)
    for variant in (True, False) if disjoint else (False,):
        got = make()
        executable = _executable(text, variant)
        executable.run(grid, _values(executable, got))
        compare("disjoint variant" if variant else "variant for any arguments", want, got, rtol, atol)
    got = make()
    executable = _executable(text, disjoint)
    slots, _ = executable.encode(_values(executable, got))
    x, y, z = (*grid, 1, 1)[:3]
    executable._run_reference((x, y, z), slots)
    compare("reference", want, got, rtol, atol)


@functools.cache
def _executable(text: str, disjoint: bool) -> Executable:
    artefact = pipeline.compile_text(text, pipeline.Options(disjoint=disjoint))
    return _Forced(replace(artefact, texts={**artefact.texts, "ttir": text}))


def _values(executable: Executable, arguments: Arguments) -> list[Any]:
    """The values of the parameters that specialisation has left, in their order."""
    values = []
    for parameter in executable.artefact.parameters:
        value = arguments[parameter.name]
        if isinstance(value, float | bool) and isinstance(parameter.type, Scalar) and parameter.type.is_integer:
            value = int(value)
        values.append(value)
    return values


def compare(way: str, want: Arguments, got: Arguments, rtol: float, atol: float) -> None:
    """Fail where an array differs from what was wanted."""
    for name, expected in want.items():
        if not isinstance(expected, np.ndarray):
            continue
        actual = got[name]
        if expected.dtype.kind in "fV" and (rtol or atol):
            close = np.isclose(actual.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True)
        else:
            bits = np.dtype(f"u{expected.dtype.itemsize}")
            close = np.ascontiguousarray(actual).view(bits) == np.ascontiguousarray(expected).view(bits)
            if expected.dtype.kind in "fV":
                close |= np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            raise AssertionError(
                f"{way}: {name}: {np.count_nonzero(~close)} of {close.size} differ, the first at {at}: "
                f"expected {expected[at]!r}, got {actual[at]!r}"
            )
