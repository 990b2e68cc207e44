"""What PyTorch's tests of user-defined Triton kernels need to see on the CPU: a pytest plugin of `torch_conformance.py`.

No test is changed. The helpers that the tests ask which GPU there is answer that there is one and that it is called
`cpu`; symbols that the file imports from CUDA's libdevice only where it finds CUDA are given to it. How outcomes are
written down is `conformance_plugin.py`'s.
"""

from __future__ import annotations

from typing import Any

import pytest
from conformance_plugin import pytest_collection_modifyitems as _select
from conformance_plugin import (  # noqa: F401  # pytest finds hooks by their names
    pytest_collectreport,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
)


def pytest_configure(config: pytest.Config) -> None:
    """Answer for the CPU, before the test file is imported.

    `torch.cuda.is_bf16_supported` asks for a GPU's abilities; the tests run more with bf16. The helpers for tensor
    descriptors ask for a GPU of a certain age; descriptors work here, by the API that Triton has now.
    """
    import torch
    from torch.testing._internal import inductor_utils
    from torch.utils import _triton

    inductor_utils.HAS_GPU = inductor_utils.HAS_GPU_AND_TRITON = True
    inductor_utils.GPU_TYPE = "cpu"
    from torch.testing._internal import triton_utils

    triton_utils.requires_gpu_and_triton = lambda function: function
    setattr(_triton, "has_triton_tensor_descriptor_host_tma", lambda: True)  # noqa: B010  # by assignment it would have to be cached
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the file what it imports from CUDA's libdevice, then select."""
    from triton.language.extra import libdevice

    for module in {item.module for item in items}:  # type: ignore[attr-defined]
        for name in ("fast_dividef", "my_fast_dividef"):
            if not hasattr(module, name):
                setattr(module, name, libdevice.fast_dividef)
    _select(config, items)


def pytest_runtest_setup(item: Any) -> None:
    """Compiled code of one test must not be found by the next: they look at what was compiled."""
    import torch

    torch._dynamo.reset()
