"""Kernels in programs that AOTInductor compiles ahead of time: two shared libraries a kernel, which need no Python.

In: a compiled kernel that Inductor is about to store. Out: the kernel's object code linked to a library, and a launcher
`run_from_nativert` that reads Inductor's arguments, cuts the grid over threads and calls it. Linking needs the C++ compiler
that AOTInductor needs anyway.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from .hooks import wrap

if TYPE_CHECKING:
    from ..artefact import Artefact, Parameter

# Inductor hands over: a pointer's value, the address of an int64 or float, of a bool for i1.
_HEAD = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_arch_prctl
/* Linux gives a process AMX's tile registers only on request. */
__attribute__((constructor)) static void request_tiles(void) { syscall(SYS_arch_prctl, 0x1023, 18); }
#endif

typedef int32_t (*kernel_type)(const uint64_t *, const int32_t *, int64_t, int64_t, void *, void *);
struct work {
    kernel_type kernel;
    const uint64_t *slots;
    int32_t grid[3];
    int64_t programs, chunk, next;
};

static void *work_on(void *data) {
    struct work *w = (struct work *)data;
    void *arena = NULL;
    int32_t fault[3] = {0, 0, 0};
    if (posix_memalign(&arena, 64, ARENA) != 0) abort();
    for (;;) {
        int64_t first = __atomic_fetch_add(&w->next, w->chunk, __ATOMIC_RELAXED);
        if (first >= w->programs) break;
        int64_t last = first + w->chunk < w->programs ? first + w->chunk : w->programs;
        if (w->kernel(w->slots, w->grid, first, last, arena, fault) != 0) {
            fprintf(stderr, "kernel " NAME ", program (%d, %d, %d): device_assert failed\\n", fault[0], fault[1], fault[2]);
            abort();
        }
    }
    free(arena);
    return NULL;
}

#ifdef __cplusplus
extern "C"
#endif
void run_from_nativert(uint32_t x, uint32_t y, uint32_t z, int threads, void **args, void *kernel) {
    uint64_t slots[SLOTS];
    memset(slots, 0, sizeof slots);
"""
_TAIL = """
    struct work w = {(kernel_type)kernel, slots, {(int32_t)x, (int32_t)y, (int32_t)z}, (int64_t)x * y * z, 1, 0};
    (void)threads;
    long count = 1;
    if (COST * (double)w.programs > 200000.0) count = sysconf(_SC_NPROCESSORS_ONLN);
    if (count > 64) count = 64;
    if (count > w.programs) count = w.programs;
    w.chunk = count > 1 ? w.programs / (count * 16) : w.programs;
    if (w.chunk < 1) w.chunk = 1;
    pthread_t helpers[64];
    long started = 0;
    while (started < count - 1 && pthread_create(&helpers[started], NULL, work_on, &w) == 0) started++;
    work_on(&w);
    while (started > 0) pthread_join(helpers[--started], NULL);
}
"""


def install(module: ModuleType) -> None:
    """Adapt `torch._inductor.runtime.triton_heuristics`; torch before 2.13 stores no kernels for the CPU."""
    if hasattr(module.CachingAutotuner, "save_cpu_kernel"):
        wrap(module.CachingAutotuner, "save_cpu_kernel", _save)


def install_grids(module: ModuleType) -> None:
    """Adapt `torch._inductor.codegen.cpp_wrapper_cpu`: autotuned kernels get the grid of the configuration that was chosen.

    Of several grids torch 2.13 takes none, but 1, or the sizes that they are computed from.
    """
    if hasattr(module, "DeferredCpuTritonCallWrapper"):
        wrap(module.DeferredCpuTritonCallWrapper, "_generate_launch", _with_grid)


def _with_grid(stock: Callable[..., Any]) -> Callable[..., Any]:
    def generate_launch(self: Any, prefix: Any, names: list[str], grid: list[str], signature: dict[str, Any]) -> Any:
        meta = self.inductor_meta or {}
        if meta.get("grid_type") == "PrecomputedGrid":
            from torch._inductor.codecache import CpuTritonKernelCache

            stored: Any = CpuTritonKernelCache.get(self.kernel_name)
            chosen = stored[_CHOSEN]
            grid = next(g["cpp"] for g in meta["precomputed_grids"] if g["config"].items() <= chosen.items())
        return stock(self, prefix, names, grid, signature)

    return generate_launch


_CHOSEN = "omnikernel_config"  # beside what Inductor keeps of a kernel


def _save(stock: Callable[..., Any]) -> Callable[..., Any]:
    def save_cpu_kernel(self: Any, launcher: Any) -> Any:
        compiled = launcher.bin
        if compiled.metadata.target.backend != "cpu" or "launcher.so" in compiled.asm:
            return stock(self, launcher)
        linked = SimpleNamespace(
            asm={**compiled.asm, **libraries(compiled)}, metadata=compiled.metadata, src=compiled.src
        )
        saved = stock(self, SimpleNamespace(bin=linked))
        from torch._inductor.codecache import CpuTritonKernelCache
        from torch._inductor.runtime.triton_heuristics import config_to_dict

        stored: Any = CpuTritonKernelCache.get(self.inductor_meta["kernel_name"])
        stored[_CHOSEN] = config_to_dict(launcher.config)
        return saved

    return save_cpu_kernel


def libraries(compiled: Any) -> dict[str, bytes]:
    """The kernel and its launcher as shared libraries, by Inductor's names of them.

    Raises:
        ArgumentTypeError: a kernel with tuples or tensor descriptors among its parameters.
    """
    from ..errors import ArgumentTypeError
    from ..runtime.cache import unpack
    from ..runtime.launch import Launcher

    artefact = unpack(compiled.asm["so"])
    leaves = Launcher(compiled.src, compiled.metadata).leaves
    if len(leaves) != len(artefact.parameters) or any(len(leaf.path) != 1 or leaf.descriptor for leaf in leaves):
        raise ArgumentTypeError(
            f"kernel {artefact.name!r}: tuples and tensor descriptors cannot be passed in a program compiled ahead of time"
        )
    source = launcher_source(artefact, [leaf.path[0] for leaf in leaves])
    return {
        "so": _link("kernel.o", artefact.object, "-lm"),
        "launcher.so": _link("launcher.cpp", source.encode(), "-O2", "-pthread"),
    }


def launcher_source(artefact: Artefact, positions: list[int]) -> str:
    """C source of the launcher; `positions[i]` is the argument that parameter i gets."""
    lines = [
        _slot(i, parameter, at) for i, (parameter, at) in enumerate(zip(artefact.parameters, positions, strict=True))
    ]
    defines = (
        f'#define NAME "{artefact.name}"\n#define ARENA {max(64, artefact.arena_bytes)}\n'
        f"#define SLOTS {max(1, len(positions))}\n#define COST {artefact.cost!r}\n"
    )
    return defines + _HEAD + "\n".join(lines) + _TAIL


def _slot(index: int, parameter: Parameter, position: int) -> str:
    from ..ir.types import Pointer

    argument = f"args[{position}]"
    type_ = parameter.type
    if isinstance(type_, Pointer):
        return f"    slots[{index}] = (uint64_t)(uintptr_t){argument};"
    if type_.kind == "i1":
        return f"    slots[{index}] = *(const uint8_t *){argument} != 0;"
    if type_.is_integer:
        return f"    slots[{index}] = (uint64_t)*(const int64_t *){argument};"
    if type_.kind == "f64":  # Inductor declares a Python float as fp64 and yet hands over a float
        return f"    {{ double v = *(const float *){argument}; memcpy(&slots[{index}], &v, 8); }}"
    return f"    memcpy(&slots[{index}], {argument}, 4);"


def _link(name: str, content: bytes, *options: str) -> bytes:
    from torch._inductor.cpp_builder import get_cpp_compiler

    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, name), Path(folder, "library.so")
        source.write_bytes(content)
        command = [get_cpp_compiler(), "-shared", "-fPIC", str(source), "-o", str(library), *options]
        subprocess.run(command, check=True, capture_output=True)
        return library.read_bytes()
