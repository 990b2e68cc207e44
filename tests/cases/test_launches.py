"""The behaviours of launches.py: compiled, interpreted, and both with torch and jax hidden."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import launches


@pytest.mark.parametrize("name", launches.CASES)
def test_compiled(name: str) -> None:
    entry = launches.CASES[name]
    if entry.needs:
        pytest.importorskip(entry.needs)
    entry.check()


@functools.cache
def outcomes(hide: bool, interpret: bool) -> dict[str, str]:
    """Name -> error of every case, run in one process of that mode."""
    env = {**os.environ, "TRITON_INTERPRET": "1"} if interpret else dict(os.environ)
    hiding = "sys.modules['torch'] = sys.modules['jax'] = None; " if hide else ""
    code = f"import sys; {hiding}import launches; launches.run_all({hide})"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), env.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False, env=env
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, f"after {found[-1:]}: exit status {done.returncode}\n{done.stderr[-2000:]}"
    return {entry["name"]: entry["error"] for entry in found}


@pytest.mark.parametrize("name", [name for name, entry in launches.CASES.items() if entry.interpreted])
def test_interpreted(name: str) -> None:
    if launches.CASES[name].needs:
        pytest.importorskip(launches.CASES[name].needs)
    assert outcomes(False, True)[name] == ""


@pytest.mark.parametrize("name", [name for name, e in launches.CASES.items() if e.interpreted and not e.needs])
def test_interpreted_without_torch(name: str) -> None:
    assert outcomes(True, True)[name] == ""


@pytest.mark.parametrize("name", [*(name for name, entry in launches.CASES.items() if not entry.needs), "imported"])
def test_compiled_without_torch(name: str) -> None:
    """Also: nothing imported torch or jax ("imported" is the row that says so)."""
    assert outcomes(True, False)[name] == ""
