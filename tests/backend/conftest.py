"""Runs pieces of Python in processes of their own, where Triton finds the backend as an installed package would be."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import omnikernel

SOURCE = Path(omnikernel.__file__).parents[1]
Run = Callable[..., str]

# Modules that seem not to be installed. (`sys.modules[name] = None` would do for Python, but not for Triton's C++.)
HIDDEN = """
import sys
class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden)
"""
# Stands in for compiled code: every launch is noted as (kernel, grid, arguments) in CALLS, and nothing is run.
RECORDER = """
import sys, types
import numpy as np
CALLS, COMPILED = [], []
launch = types.ModuleType("omnikernel.runtime.launch")
class Launcher:
    def __init__(self, src, metadata):
        self.name = metadata.name
    def __call__(self, x, y, z, stream, function, packed, launch_metadata, enter, leave, *args):
        CALLS.append((self.name, (x, y, z), args))
launch.Launcher = Launcher
dispatch = types.ModuleType("omnikernel.runtime.dispatch")
dispatch.try_launch = dispatch.remember = dispatch.launcher = lambda *args: None
sys.modules["omnikernel.runtime.launch"] = launch
sys.modules["omnikernel.runtime.dispatch"] = dispatch
import omnikernel.pipeline as pipeline
def compile_text(text, options, *rest, **named):
    COMPILED.append(text)
    return pipeline.Artefact("k", b"no code", (), 0)
pipeline.compile_text = compile_text
"""


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """`python(code, env=..., recorder=..., hide=...)`: run code, return what it printed; a failure fails the test.

    The code is a file, since Triton reads the source of kernels. `recorder` replaces code generation by `RECORDER`;
    `hide` names modules that must seem not to be installed.
    """
    info = tmp_path / "site" / f"omnikernel-{omnikernel.__version__}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: omnikernel\nVersion: {omnikernel.__version__}\n")
    (info / "entry_points.txt").write_text("[triton.backends]\ncpu = omnikernel.backend\n")

    def run(code: str, env: dict[str, str] | None = None, recorder: bool = False, hide: tuple[str, ...] = ()) -> str:
        script = tmp_path / "script.py"
        hidden = HIDDEN.format(names=hide) if hide else ""
        script.write_text(hidden + (RECORDER if recorder else "") + textwrap.dedent(code))
        own = {
            "PYTHONPATH": os.pathsep.join((str(info.parent), str(SOURCE))),
            "TRITON_CACHE_DIR": str(tmp_path / "triton"),
            "OMNIKERNEL_CACHE_DIR": str(tmp_path / "omnikernel"),
        }
        base = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "OMNIKERNEL_"))}
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            env=base | own | (env or {}),
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
