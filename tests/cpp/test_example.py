"""The example runs as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_first_kernels(compiler: object) -> None:
    script = Path(__file__).parents[2] / "examples" / "cpp" / "first_kernels.py"
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert [line.split()[0] for line in run.stdout.splitlines()][:3] == ["add_relu", "row_scale", "softplus"]
