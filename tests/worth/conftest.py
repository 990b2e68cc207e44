"""Skips what needs a C++ compiler where there is none, and says so."""

from __future__ import annotations

import pytest

from omnikernel.cpp.toolchain import BuildError, find_compiler


@pytest.fixture(scope="session")
def compiler() -> object:
    try:
        return find_compiler()
    except BuildError as error:
        pytest.skip(str(error))
