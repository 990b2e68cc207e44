"""C++ and CUDA C++ from a string: times of builds, beside torch's `load_inline`, and of an elementwise kernel on the CPU.

A build is measured with an empty cache, ours and torch's in turn, in processor time of the process and its children (what it
costs, also on a busy machine) and on the wall. The kernel is CUDA source that runs on the CPU, beside the same as C++.

Run: python benchmarks/cpp_builds.py [--no-torch] [--rounds N] [--json FILE]. torch's build takes minutes on a small machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS = """
#include <omnikernel.h>
void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  ok::parallel_for(0, out.size(0), 65536, [&](int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; }
  });
}
"""
CUDA = """
#include <omnikernel.h>
__global__ void add_relu(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) { float v = a[i] + b[i]; out[i] = v > 0.f ? v : 0.f; }
}
"""
TORCH = """
#include <torch/extension.h>
void add_relu(torch::Tensor a, torch::Tensor b, torch::Tensor out) {
  auto x = a.accessor<float, 1>(), y = b.accessor<float, 1>(), z = out.accessor<float, 1>();
  at::parallel_for(0, z.size(0), 65536, [&](int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) { float v = x[i] + y[i]; z[i] = v > 0.f ? v : 0.f; }
  });
}
"""
LIMITS = {"cpp cold": 2.0, "cuda cold": 3.0, "cpp cached": 0.005, "cuda cached": 0.005}  # seconds on the wall
SIZE = 1 << 20
Times = dict[str, list[tuple[float, float]]]


def spent() -> float:
    """Processor seconds of this process and of the children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def build(name: str, call: Callable[[], object], times: Times) -> None:
    wall, processor = time.perf_counter(), spent()
    call()
    times.setdefault(name, []).append((time.perf_counter() - wall, spent() - processor))


def builds(rounds: int, with_torch: bool) -> Times:
    """Every build `rounds` times with an empty cache, in turn; ours also from the cache. torch's runs once."""
    import omnikernel

    times: Times = {}
    for turn in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["OMNIKERNEL_CACHE_DIR"] = folder
            found: Times = {}
            for name, given in (("cpp", {"cpp_source": OURS}), ("cuda", {"cuda_source": CUDA})):
                build(f"{name} cold", lambda given=given: omnikernel.load_inline("add_relu", **given), found)
                for _ in range(5):
                    build(f"{name} cached", lambda given=given: omnikernel.load_inline("add_relu", **given), found)
            if with_torch and turn == 1:
                build("torch cold", lambda folder=folder: by_torch(Path(folder) / "torch"), found)
            for name in found if turn else ():  # the first turn imports modules and reads the compiler into memory
                times.setdefault(name, []).extend(found[name])
    return times


def by_torch(folder: Path) -> None:
    from torch.utils.cpp_extension import load_inline

    folder.mkdir()
    load_inline("torch_add_relu", cpp_sources=TORCH, functions=["add_relu"], build_directory=str(folder))


def kernel(rounds: int) -> dict[str, float]:
    """Seconds of one call on 2^20 elements, on one thread."""
    import numpy as np
    from measure import clock_for, interleaved

    import omnikernel

    omnikernel.set_num_threads(1)
    a, b = np.random.default_rng(0).standard_normal((2, SIZE), np.float32)
    out = np.empty_like(a)
    cpp = omnikernel.load_inline("add_relu", cpp_source=OURS)
    cuda = omnikernel.load_inline("add_relu", cuda_source=CUDA)
    launch = cuda.add_relu[(SIZE // 256,), (256,)]
    timings = interleaved(
        {"cpp": lambda: cpp.add_relu(a, b, out), "cuda": lambda: launch(a, b, out)}, rounds, clock_for(1)
    )
    return {
        "cpp": timings["cpp"].seconds,
        "cuda": timings["cuda"].seconds,
        "cuda / cpp": timings["cuda"].ratio(timings["cpp"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-torch", action="store_true", help="leave torch out")
    parser.add_argument("--rounds", type=int, default=5, help="how often to build, and a fourth of how often to launch")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    times = builds(options.rounds, not options.no_torch)
    found: dict[str, Any] = {}
    for name, pairs in times.items():
        wall, processor = (statistics.median(column) for column in zip(*pairs, strict=True))
        limit = LIMITS.get(name)
        goal = "" if limit is None else f"   (at most {limit:g} s)"
        print(f"{name:12} {wall:9.4f} s on the wall, {processor:9.4f} s of processor time{goal}")
        found[name] = {"wall": wall, "processor": processor}
    if "torch cold" in found:
        ratio = {clock: found["torch cold"][clock] / found["cpp cold"][clock] for clock in ("wall", "processor")}
        print(f"torch / ours {ratio['wall']:9.0f} on the wall, {ratio['processor']:.0f} of processor time")
        found["torch / ours"] = ratio
    found["kernel"] = kernel(4 * options.rounds)
    print(
        f"add_relu of 2^20 floats: C++ {1e3 * found['kernel']['cpp']:.3f} ms, CUDA source {1e3 * found['kernel']['cuda']:.3f} ms,"
    )
    print(f"ratio {found['kernel']['cuda / cpp']:.2f}   (at most 3)")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
