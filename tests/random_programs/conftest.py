"""`pytest tests/random_programs --programs N` draws more or fewer than 1,000; `--program-seed S` starts elsewhere.

OMNIKERNEL_TEST_PROGRAMS and OMNIKERNEL_TEST_PROGRAM_SEED do the same where these options are not known, as in a run
of the whole suite.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs", type=int)
    parser.addoption("--program-seed", type=int)
