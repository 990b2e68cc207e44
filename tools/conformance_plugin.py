"""What Triton's own tests need to see on the CPU backend: a pytest plugin that `tools/conformance.py` loads.

It reads nothing but pytest's own objects and changes no test: helpers of `triton._internal_testing` that decide by the
GPU's name answer for this backend, tests are selected by node id, and every outcome goes at once to a file, line by
line, so that the process may die in the middle.

Environment:
    CONFORMANCE_RECORDS: the file to append to, JSON lines: `{"collected": [...]}`, `{"start": id}`, `{"end": id, ...}`.
    CONFORMANCE_SELECTED: a file of node ids, one a line; absent: all.
    CONFORMANCE_WHOLE: set to run what is sampled here (`_EVERY`) as it stands.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

_INTERPRETER = "interpreter"
# Tests that go through 256 blocks of 2^24 values in a loop over `range(256)`, and how many of them one stands for.
_EVERY = {"test_typeconvert_downcast": 17}


class _Outcome:
    """What is known of the running test: its phases are reported one by one."""

    kind = "passed"
    text = ""
    error = ""


def _write(record: dict[str, Any]) -> None:
    with open(os.environ["CONFORMANCE_RECORDS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


class _Device(str):
    """A device as torch has it, a name, which finds what Triton keeps under a number."""

    number: int

    def __new__(cls, name: str, number: int) -> _Device:
        self = super().__new__(cls, name)
        self.number = number
        return self

    def __eq__(self, other: object) -> bool:
        return other == self.number if isinstance(other, int) else str(self) == other

    def __hash__(self) -> int:
        return hash(self.number)


def _answer_for_the_cpu() -> None:
    """Helpers that know only CUDA, HIP and the interpreter.

    `supports_tma` and `supports_ws` guard tests of tensor descriptors and of hints, which compile here as anywhere; the
    allocator asks for CUDA memory by name. `torch.cpu.current_device()` is a name in torch, but tests also look up
    Triton's caches with it, which go by the driver's number; some take for granted that it is 0.
    `torch.cuda.device(None)` stands for "where the tensor is". A machine without CUDA has no compute capability, and
    nothing to wait for.
    """
    import torch
    from triton import _internal_testing as helpers

    from omnikernel.backend import cpu_driver

    def allocate(size: int, alignment: int, stream: Any) -> Any:
        return torch.empty(size, dtype=torch.int8)

    helpers.supports_tma = lambda byval_only=False: True
    helpers.supports_ws = lambda: True
    helpers.requires_tma = pytest.mark.skipif(False, reason="tensor descriptors work here")
    helpers.default_alloc_fn = allocate
    stock: Any = torch.cuda.device

    def place(device: Any) -> Any:
        return contextlib.nullcontext() if device is None else stock(device)

    setattr(torch.cuda, "device", place)  # noqa: B010  # by assignment it would have to be a type
    if not torch.cuda.is_available():
        torch.cuda.get_device_capability = lambda device=None: (0, 0)
        torch.cuda.synchronize = lambda device=None: None
    cpu_driver.DEVICE = 0
    torch.cpu.current_device = lambda: _Device("cpu", cpu_driver.DEVICE)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "forked: upstream runs this test in a process of its own")
    config.addinivalue_line("markers", f"{_INTERPRETER}: upstream says that its interpreter runs this test")
    _answer_for_the_cpu()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell what there is, keep what was selected."""
    marked = [item.nodeid for item in items if item.get_closest_marker(_INTERPRETER)]
    _write({"collected": [item.nodeid for item in items], "marked": marked})
    path = os.environ.get("CONFORMANCE_SELECTED")
    if path:
        selected = set(Path(path).read_text(encoding="utf-8").split("\n"))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in selected])
        items[:] = [item for item in items if item.nodeid in selected]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write({"uncollected": report.nodeid, "text": str(report.longrepr)[-4000:]})


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    import triton

    outcome = _Outcome()
    item.config.stash[_KEY] = outcome
    _write({"start": item.nodeid})
    yield
    triton.knobs.refresh_knobs()  # some tests leave them as an environment had them that is no more
    _write({"end": item.nodeid, "kind": outcome.kind, "error": outcome.error, "text": outcome.text[-4000:]})


_KEY = pytest.StashKey[_Outcome]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """A test that names CUDA in its own text gets the CPU's memory for it; one that is endless here is made shorter."""
    function = getattr(item, "function", None)
    step = _EVERY.get(getattr(item, "originalname", ""), 1)
    if step > 1 and not os.environ.get("CONFORMANCE_WHOLE"):
        item.module.range = lambda stop: range(0, stop, step)  # type: ignore[attr-defined]
    source = inspect.getsource(function.__code__) if inspect.isfunction(function) else ""
    if not re.search(r"""device\s*=\s*["']cuda""", source):
        yield
        return
    if re.search(r"""if device != ["']cuda["']:\s+pytest.skip""", source):
        item.funcargs["device"] = "cuda"  # type: ignore[attr-defined]
    with _on_the_cpu():
        yield


def _on_the_cpu() -> Any:
    """A mode of torch in which the device `cuda` of a factory call is the CPU."""
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            if str(given.get("device", "")).startswith("cuda"):
                given["device"] = "cpu"
            return function(*args, **given)

    return Mode()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    result = yield
    report = result.get_result()
    outcome = item.config.stash[_KEY]
    if report.failed and outcome.kind != "failed":
        outcome.kind, outcome.text = "failed", report.longreprtext
        outcome.error = call.excinfo.exconly() if call.excinfo else ""
    elif report.skipped and outcome.kind == "passed":
        outcome.kind = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        outcome.error = (
            report.longrepr[2] if isinstance(report.longrepr, tuple) else str(getattr(report, "wasxfail", ""))
        )
