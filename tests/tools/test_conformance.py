"""The runner of Triton's own tests, on a checkout of a few tests that end in every way a test can end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif("cpu" not in triton.backends.backends, reason="the package is not installed"),
]

TOOL = Path(__file__).parents[2] / "tools" / "conformance.py"
CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--device", default="cuda")

@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""
TESTS = """
import os, time
import pytest, torch, triton
import triton.language as tl
from triton._internal_testing import is_cuda, requires_tma

@triton.jit
def double(x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + at, tl.load(x + at) * 2)

@pytest.mark.interpreter
@pytest.mark.parametrize("n", [4, 8, 16])
def test_passes(n, device):
    x = torch.ones(n, device=device)
    double[(1,)](x, N=n)
    assert x.tolist() == [2.0] * n

def test_names_cuda():
    x = torch.ones(4, device="cuda")
    double[(1,)](x, N=4)
    assert x.tolist() == [2.0] * 4

@requires_tma
def test_descriptors_are_there():
    pass

def test_knows_the_device(device):
    torch.zeros(1, device=torch.cpu.current_device())
    assert double.device_caches[torch.cpu.current_device()] is double.device_caches[0]

def test_crashes():
    os.abort()

def test_hangs():
    time.sleep(600)

def test_skips(device):
    if not is_cuda():
        pytest.skip("for GPUs")

def test_fails():
    assert 1 == 2

def test_behind_them_all():
    pass
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the tool needs of a checkout, with tests of ours."""
    tests = tmp_path / "checkout" / "python" / "test"
    (tests / "unit" / "language").mkdir(parents=True)
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "unit" / "language" / "test_ends.py").write_text(TESTS)
    (tests / "unit" / "language" / "test_unreadable.py").write_text("import a_module_that_is_not_there\n")
    return tmp_path / "checkout"


def run(checkout: Path, *options: str) -> tuple[int, str]:
    """Status and page."""
    page = checkout / "page.md"
    command = [sys.executable, str(TOOL), str(checkout), "--page", str(page), "--revision", "abc", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert page.exists(), done.stdout + done.stderr
    return done.returncode, page.read_text()


def test_every_end_is_told_and_costs_one_case(checkout: Path) -> None:
    records = checkout / "records.jsonl"
    status, page = run(checkout, "--limit", "20", "--records", str(records))
    assert status == 1
    assert "| language/test_ends.py | 7 | 3 | 0 | 1 |" in page
    assert "| language/test_unreadable.py | 0 | 1 | 0 | 0 |" in page
    assert "marked for the interpreter** | 3 | 0 | 0 | 0 |" in page
    for line in (
        "| 1 | `language/test_ends.py::test_crashes` | the process died (status -6) |",
        "| 1 | `language/test_ends.py::test_hangs` | longer than 20 s |",
        "| 1 | `language/test_ends.py::test_fails` | AssertionError: assert 1 == 2",
        "| 1 | `language/test_ends.py::test_skips` | for GPUs |",
        "| 1 | `language/test_unreadable.py` | cannot be imported |",
    ):
        assert line in page
    again, resumed = run(checkout, "--limit", "0.01", "--records", str(records))
    took = re.search(r" The run took \d+ minutes with \d+ workers, \d+ minutes of processor time\.", page)
    assert took
    assert (again, resumed) == (status, page.replace(took[0], ""))  # nothing was left to run
    assert len([json.loads(line) for line in records.read_text().splitlines()]) == 11


def test_a_sample_of_the_marked_cases(checkout: Path) -> None:
    status, page = run(checkout, "--only", "ends", "--interpreter-marked", "--every", "2")
    assert status == 0
    assert "| language/test_ends.py | 2 | 0 | 0 | 0 |" in page
    assert "every 2nd case" in page
