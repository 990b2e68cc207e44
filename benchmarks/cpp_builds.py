"""Build times of a C++ program from a string: ours and torch's `load_inline`, each with an empty cache, one after the other.

Run: python benchmarks/cpp_builds.py [--no-torch]. torch's takes minutes on a small machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time

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


def seconds(call: object) -> float:
    begun = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-torch", action="store_true", help="leave torch out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OMNIKERNEL_CACHE_DIR"] = folder
        import omnikernel
        from omnikernel.runtime import pool

        pool.pool()
        found = {
            "cpp cold": seconds(lambda: omnikernel.load_inline("add_relu", cpp_source=OURS)),
            "cuda on cpu cold": seconds(lambda: omnikernel.load_inline("add_relu", cuda_source=CUDA)),
            "cpp cached": min(seconds(lambda: omnikernel.load_inline("add_relu", cpp_source=OURS)) for _ in range(10)),
            "cuda cached": min(
                seconds(lambda: omnikernel.load_inline("add_relu", cuda_source=CUDA)) for _ in range(10)
            ),
        }
        if not arguments.no_torch:
            from torch.utils.cpp_extension import load_inline

            build = os.path.join(folder, "torch")
            os.makedirs(build)
            found["torch cold"] = seconds(
                lambda: load_inline("torch_add_relu", cpp_sources=TORCH, functions=["add_relu"], build_directory=build)
            )
            found["torch cold / cpp cold"] = found["torch cold"] / found["cpp cold"]
    print(json.dumps({name: round(value, 4) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
