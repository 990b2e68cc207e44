"""CUDA source for a GPU: the text that NVRTC or nvcc compiles, to a cubin kept in the cache.

In: a source and its kernels. Out: the path of a cubin with an `extern "C"` kernel `ok_k_NAME` for each. The user's `__global__`
functions become device functions that these call: so templates and namespaces need no mangled names.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import __version__
from . import build
from .driver import include_folders, nvrtc
from .emulation import without_instantiations
from .entries import spelled
from .source import Definition, Function, Type, definitions
from .tokens import Token, matching, split, tokenize
from .toolchain import INCLUDE, BuildError

# Headers that NVRTC has not: what they declare is built in or in omnikernel.h, or in NVIDIA's own library.
_STUBS = (
    *("stdint.h", "cstdint", "stddef.h", "cstddef", "stdio.h", "cstdio", "math.h", "cuda_runtime.h"),
    *("float.h", "cfloat", "limits.h", "climits"),
)
_STANDARD = ("cmath", "limits", "type_traits", "utility")
_FROM_CUDA = "#include <cuda/std/{0}>\nnamespace std {{ using namespace cuda::std; }}\n"
_ASSERT = """#undef assert
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#define assert(c) ((c) ? (void)0 : __assertfail(#c, __FILE__, __LINE__, __func__, 1))
"""


@dataclass(frozen=True, slots=True)
class GpuRecipe:
    """What to build for a GPU. `bits`: of an index; `capability`: the GPU's, e.g. 90."""

    name: str
    file: str
    text: str
    kernels: tuple[Function, ...]
    bits: int
    capability: int
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    macros: Mapping[str, str]
    checked: bool

    def options(self) -> list[str]:
        """The compiler's, as NVRTC and nvcc both take them."""
        macros = {
            **self.macros,
            "OK_INDEX_BITS": str(self.bits),
            "OK_CHECKED": str(int(self.checked)),
            **_floats(self),
        }
        return ["-std=c++17", "-lineinfo", *(f"-D{k}={v}" if v else f"-D{k}" for k, v in macros.items()), *self.flags]


def _floats(recipe: GpuRecipe) -> dict[str, str]:
    """Which of CUDA's headers of small floats the source needs; they take long to compile."""
    words = {token.text for token in tokenize(recipe.text) if token.kind == "word"}
    dtypes = {parameter.type.dtype for kernel in recipe.kernels for parameter in kernel.parameters}
    found = {}
    if words & {"f16", "half", "half2", "__half", "__half2"} or "fp16" in dtypes:
        found["OK_USE_F16"] = "1"
    if words & {"bf16", "nv_bfloat16", "nv_bfloat162", "__nv_bfloat16", "__nv_bfloat162"} or "bf16" in dtypes:
        found["OK_USE_BF16"] = "1"
    if words & {"f8e4m3", "f8e5m2", "__nv_fp8_e4m3", "__nv_fp8_e5m2"} or dtypes & {"fp8e4nv", "fp8e5"}:
        found["OK_USE_F8"] = "1"
    return found


def translation_unit(recipe: GpuRecipe) -> str:
    """All that the compiler reads."""
    text = without_instantiations(recipe.text)
    tokens = tokenize(text)
    for token in reversed([*_lambda_spaces(tokens), *(t for t in tokens if t.text == "__global__")]):
        new = "__device__" if token.text == "__global__" else " " * len(token.text)
        text = text[: token.offset] + new + text[token.end :]
    for start, end in sorted(_launch_bounds(text), reverse=True):
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    bounds = {
        d.name: (_attributes(d.prefix), _template_parameters(tokens, d)) for d in definitions(tokens) if d.is_kernel
    }
    parts = [f'#include "omnikernel.h"\n#line 1 "{recipe.file}"\n', text, '\n#line 1 "kernels"\n']
    for kernel in recipe.kernels:
        base = kernel.call.split("<")[0].split("::")[-1]
        attributes = _instantiated(*bounds[base], kernel.call) if base in bounds else ""
        declared = ", ".join(f"{_parameter(p.type)} {p.name}" for p in kernel.parameters)
        passed = ", ".join(p.name for p in kernel.parameters)
        parts.append(
            f'extern "C" __global__ void {attributes} ok_k_{kernel.name}({declared}) {{ ::{kernel.call}({passed}); }}\n'
        )
    return "".join(parts)


def _launch_bounds(text: str) -> list[tuple[int, int]]:
    """Where attributes of kernels stand in the text, which device functions cannot have."""
    tokens = tokenize(text)
    found = []
    for index, token in enumerate(tokens):
        if token.text in ("__launch_bounds__", "__cluster_dims__"):
            closing = matching(tokens, index + 1)
            if closing is not None:
                found.append((token.offset, tokens[closing].end))
    return found


def _attributes(prefix: Sequence[Any]) -> str:
    found = []
    for index, token in enumerate(prefix):
        if token.text in ("__launch_bounds__", "__cluster_dims__"):
            closing = matching(prefix, index + 1) or index
            found.append("".join(t.text for t in prefix[index : closing + 1]))
    return " ".join(found)


def _lambda_spaces(tokens: Sequence[Token]) -> list[Token]:
    """`__device__` and `__host__` of lambdas: inside a device function they are needless, and NVRTC refuses them."""
    found: list[Token] = []
    for before, token in pairwise(tokens):
        if token.text in ("__device__", "__host__") and (before.text == "]" or before in found):
            found.append(token)
    return found


def _template_parameters(tokens: Sequence[Token], definition: Definition) -> list[tuple[str, str]]:
    """Name and default of the template parameters of a kernel; none where it is no template."""
    if not definition.is_template:
        return []
    end = next(i for i, token in enumerate(tokens) if token is definition.prefix[0]) - 1
    start = max(i for i in range(end) if tokens[i].text == "template")
    found = []
    for part in split(tokens[start + 2 : end]):
        words = [token.text for token in part]
        at = words.index("=") if "=" in words else len(words)
        found.append((words[at - 1], " ".join(words[at + 1 :])))
    return found


def _instantiated(attributes: str, parameters: Sequence[tuple[str, str]], call: str) -> str:
    """Attributes that name template parameters, with their values in `call`, e.g. `k<float, 64>`."""
    tokens = tokenize(call)
    opening = next((i for i, token in enumerate(tokens) if token.text == "<"), None)
    if not parameters or opening is None:
        return attributes
    given = ["".join(f"{t.text} " for t in part).strip() for part in split(tokens[opening + 1 : len(tokens) - 1])]
    values = {name: given[i] if i < len(given) else default for i, (name, default) in enumerate(parameters)}
    return "".join(f"({values[t.text]})" if values.get(t.text) else t.text for t in tokenize(attributes))


def _parameter(type_: Type) -> str:
    const = "const " if type_.const else ""
    if type_.form == "view":
        kind = ", ok::Restrict" if type_.restrict else ""
        return f"ok::View<{const}{spelled(type_)}, {type_.rank}{kind}>"
    if type_.form == "pointer":
        return f"{const}{spelled(type_)} *{'__restrict__' if type_.restrict else ''}"
    return spelled(type_)


def compiler_missing() -> str | None:
    """Why CUDA source cannot be compiled for a GPU here; None where it can."""
    if nvrtc() is not None or shutil.which("nvcc"):
        return None
    return "neither NVRTC (pip install nvidia-cuda-nvrtc) nor nvcc was found"


def cubin(recipe: GpuRecipe) -> Path:
    """The cubin of a recipe, from the cache or new.

    Raises:
        BuildError: no compiler for GPUs, or an error in the source.
    """
    missing = compiler_missing()
    if missing is not None:
        raise BuildError(f"module {recipe.name!r}: {missing}")
    text = translation_unit(recipe)
    parts = {
        "text": text,
        "options": recipe.options(),
        "includes": build.included(recipe.includes),
        "arch": recipe.capability,
    }
    parts |= {"compiler": _version(), "omnikernel": __version__, "headers": build.headers(), "format": build.FORMAT}
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]

    def make(work: Path) -> None:
        data = _by_nvrtc(recipe, text) if nvrtc() is not None else _by_nvcc(recipe, text, work)
        (work / "module.cubin").write_bytes(data)

    about = {"compiler": _version(), "flags": recipe.options(), "architecture": f"sm_{recipe.capability}"}
    return build.kept(build.Output(recipe.name, key, "module.cubin", {recipe.file: recipe.text}, about), make)


@cache
def _version() -> str:
    if nvrtc() is not None:
        major, minor = ctypes.c_int(), ctypes.c_int()
        nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"NVRTC {major.value}.{minor.value}"
    return subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout.strip()


def _folders(recipe: GpuRecipe) -> list[str]:
    return [f"-I{folder}" for folder in (INCLUDE, *include_folders(), *recipe.includes)]


def _by_nvrtc(recipe: GpuRecipe, text: str) -> bytes:
    library = nvrtc()
    headers = {**dict.fromkeys(_STUBS, ""), "assert.h": _ASSERT, "cassert": _ASSERT}
    headers |= {name: _FROM_CUDA.format(name) for name in _STANDARD}
    names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
    contents = (ctypes.c_char_p * len(headers))(*(content.encode() for content in headers.values()))
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), f"{recipe.name}.cu".encode(), len(headers), contents, names
    )
    try:
        options = [f"--gpu-architecture=sm_{recipe.capability}", *recipe.options(), *_folders(recipe)]
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), array):
            log = _log(library, program)
            raise BuildError(f"module {recipe.name!r} does not compile with {_version()}:\n{log}{_advice(log)}")
        size = ctypes.c_size_t()
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        library.nvrtcGetCUBIN(program, data)
        return data.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _advice(log: str) -> str:
    """What to install where one of CUDA's own headers is missing."""
    if re.search(r'cannot open source file "(cuda_\w+\.h|nv/target|cooperative_groups)', log):
        return "\nCUDA's headers are missing: pip install nvidia-cuda-runtime nvidia-cuda-cccl, or set CUDA_HOME"
    return ""


def _log(library: Any, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, text)
    return text.value.decode(errors="replace").strip()


def _by_nvcc(recipe: GpuRecipe, text: str, work: Path) -> bytes:
    (work / "unit.cu").write_text(text)
    command = ["nvcc", "-cubin", f"-arch=sm_{recipe.capability}", *recipe.options(), *_folders(recipe)]
    command += ["unit.cu", "-o", "unit.cubin"]
    run = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    if run.returncode:
        messages = re.sub(r"^$\n", "", run.stderr or run.stdout, flags=re.MULTILINE).strip()
        raise BuildError(f"module {recipe.name!r} does not compile with nvcc:\n{messages}")
    return (work / "unit.cubin").read_bytes()
