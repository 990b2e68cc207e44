"""NVIDIA's driver and run-time compiler, through ctypes: what a launch on a GPU needs of them, and no more.

In: nothing; the libraries are looked for when first used. Out: `driver()` and `nvrtc()`, whose calls raise `CudaError`.
Sources: the CUDA driver API's and NVRTC's reference.
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import OmnikernelError


class CudaError(OmnikernelError):
    """A call of the CUDA driver failed."""


@cache
def driver() -> Any:
    """The driver library, initialised; None where there is no NVIDIA driver or no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int(0)
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return None
    return library


def check(code: int, where: str) -> None:
    """Raise the error of a driver call.

    Args:
        code: what the call returned.
        where: what was being done, e.g. "kernel 'add'".

    Raises:
        CudaError: the call failed.
    """
    if code == 0:
        return
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    driver().cuGetErrorName(code, ctypes.byref(name))
    driver().cuGetErrorString(code, ctypes.byref(text))
    said = [part.decode() for part in (name.value, text.value) if part]
    raise CudaError(f"{where}: CUDA error {code}: {': '.join(said)}")


def _roots() -> Iterator[Path]:
    """Folders that may hold CUDA: NVIDIA's Python packages, then the toolkit."""
    for folder in sys.path:
        for found in sorted(glob.glob(os.path.join(folder or ".", "nvidia", "*")), reverse=True):
            yield Path(found)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")


@cache
def nvrtc() -> Any:
    """The run-time compiler's library, None where there is none."""
    candidates = [
        path for root in _roots() for sub in ("lib", "lib64") for path in sorted(root.glob(f"{sub}/libnvrtc.so*"))
    ]
    for name in [*map(str, candidates), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        if "builtins" in name or ".alt." in name:
            continue
        try:
            for part in sorted(Path(name).parent.glob("libnvrtc-builtins.so*")) if "/" in name else ():
                ctypes.CDLL(str(part))  # which NVRTC opens by its bare name
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@cache
def include_folders() -> tuple[Path, ...]:
    """The folders of cuda_fp16.h and of nv/target, which it includes."""
    wanted = (("include", "cuda_fp16.h"), ("include/cccl", "nv/target"), ("include", "nv/target"))
    found = [next((root / sub for root in _roots() if (root / sub / file).exists()), None) for sub, file in wanted]
    return tuple(dict.fromkeys(folder for folder in found if folder is not None))
