"""The second opinion: a NumPy meaning for every op, and an interpreter that runs kernels by them.

    from omnikernel import reference
    reference.run(kernel, slots, grid)

Meanings are registered by op name in `MEANS`, a family a file; `registry` says how values are represented and why the
meanings of elementwise ops serve on scalars, tiles and slices of reductions alike.
"""

from . import control, floats, integers, libdevice, lookup, math, memory, printing, reduce, scaled, scan, shape
from .interpreter import Interpreter, run
from .registry import MEANS, Observer, means

__all__ = [
    "MEANS",
    "Interpreter",
    "Observer",
    "control",
    "floats",
    "integers",
    "libdevice",
    "lookup",
    "math",
    "means",
    "memory",
    "printing",
    "reduce",
    "run",
    "scaled",
    "scan",
    "shape",
]
