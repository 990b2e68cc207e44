"""The C++ kernel. A wheel has it prebuilt; `load` finds that, and compiles where there is none, as in a checkout."""

from pathlib import Path

import omnikernel

interpolate = omnikernel.load(
    "demo_interpolate",
    Path(__file__).with_name("interpolate.cpp"),
    shapes={"interpolate": {"x": "n", "out": "n"}},
).interpolate
