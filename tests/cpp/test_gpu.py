"""CUDA kernels on a GPU: the eight kernels, streams, graphs, devices, errors. Skipped where there is no GPU.

What needs only a compiler for GPUs (NVRTC or nvcc) runs without one.
"""

from __future__ import annotations

from typing import Any

import cuda_cases
import pytest
from cuda_cases import CASES, FOLDER, SPELLINGS

import omnikernel
from omnikernel.cpp import gpu, gpu_source
from omnikernel.cpp.driver import CudaError
from omnikernel.cpp.source import functions
from omnikernel.cpp.toolchain import BuildError
from omnikernel.errors import ArgumentTypeError

needs_gpu = pytest.mark.skipif(not gpu.available(), reason="needs an NVIDIA GPU, and NVRTC or nvcc")
needs_compiler = pytest.mark.skipif(gpu_source.compiler_missing() is not None, reason="needs NVRTC or nvcc")


def recipe(name: str, text: str, **options: Any) -> gpu_source.GpuRecipe:
    explicit = cuda_cases.EXPLICIT.get(name)
    kernels = tuple(functions(text, f"{name}.cu", True, explicit))
    given = {"bits": 32, "capability": 90, "flags": (), "includes": (), "macros": {}, "checked": False, **options}
    return gpu_source.GpuRecipe(name, f"{name}.cu", text, kernels, **given)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_compile_for_a_gpu(name: str) -> None:
    text = (FOLDER / f"{name}.cu").read_text()
    path = gpu_source.cubin(recipe(name, text, bits=64 if name == "scan" else 32, checked=name == "stencil"))
    assert path.read_bytes()[:4] == b"\x7fELF"


@needs_compiler
def test_ways_to_spell_a_kernel() -> None:
    explicit = dict.fromkeys("abce", "(int *x)") | {"d": "d<4>(int *x)"}
    kernels = tuple(functions(SPELLINGS, "a.cu", True, explicit))
    made = gpu_source.GpuRecipe("a", "a.cu", SPELLINGS, kernels, 32, 90, (), (), {}, False)
    assert gpu_source.cubin(made).read_bytes()[:4] == b"\x7fELF"


@needs_compiler
def test_an_error_shows_the_users_line() -> None:
    with pytest.raises(BuildError) as caught:
        gpu_source.cubin(recipe("bad", "\n__global__ void k(float *x) {\n  y[0] = 1;\n}\n"))
    assert 'identifier "y" is undefined' in str(caught.value) and "bad.cu(3)" in str(caught.value)


def test_kernels_become_device_functions() -> None:
    text = "namespace n { template <class T> __global__ void __launch_bounds__(64)\n k(T *x) {} }"
    kernels = tuple(functions(text, "a.cu", True, {"k": "n::k<float>(float *x)"}))
    made = gpu_source.translation_unit(gpu_source.GpuRecipe("a", "a.cu", text, kernels, 32, 90, (), (), {}, False))
    assert 'extern "C" __global__ void __launch_bounds__(64) ok_k_k(float * x) { ::n::k<float>(x); }' in made
    assert "__device__ void" in made and made.count("__launch_bounds__") == 1


def test_launch_bounds_that_name_template_parameters() -> None:
    text = """template <typename T, int kThreads, int kBlocks = 2, class... Rest>
__global__ void __launch_bounds__(kThreads * 2, kBlocks) k(T *x) {}"""
    kernels = tuple(functions(text, "a.cu", True, {"k": "k<float, 64>(float *x)"}))
    made = gpu_source.translation_unit(gpu_source.GpuRecipe("a", "a.cu", text, kernels, 32, 90, (), (), {}, False))
    assert 'extern "C" __global__ void __launch_bounds__((64)*2,(2)) ok_k_k(' in made


def test_lambdas_are_of_the_device_without_saying_so() -> None:
    text = """__global__ void k(float *x) {
  auto f = [=] __device__(float a) { return a; }; auto g = [&] __host__ __device__ (int i) { x[i] = 0; };
  g((int)f(1)); }
__device__ float kept(float a) { return a; }"""
    kernels = tuple(functions(text, "a.cu", True, None))
    made = gpu_source.translation_unit(gpu_source.GpuRecipe("a", "a.cu", text, kernels, 32, 90, (), (), {}, False))
    assert "[=]           (float a)" in made and "__host__" not in made and "__device__ float kept" in made


def torch_cuda() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


@needs_gpu
@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(name: str, checked: bool) -> None:
    torch = torch_cuda()

    def put(array: Any) -> Any:
        if array.flags.c_contiguous:
            return torch.from_numpy(array.copy()).cuda()
        return torch.from_numpy(array.T.copy()).cuda().t()

    CASES[name](cuda_cases.load(name, checked=checked), put, lambda t: t.cpu().numpy())


@needs_gpu
@pytest.mark.parametrize("name", ["matmul", "reduction", "histogram"])
def test_cupy(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    CASES[name](cuda_cases.load(name), cupy.asarray, cupy.asnumpy)


ADD = """
#include <omnikernel.h>
__global__ void add(ok::View<const float, 1> a, ok::View<const float, 1> b, ok::View<float, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = a[i] + b[i];
}
__global__ void stores(ok::View<float, 1> x, int at) { x[at] = 1.0f; }
"""


def stale(stream: Any, launch_on: Any, tries: int) -> int:
    """How often a kernel after a long producer on a side stream did not see what the producer wrote."""
    torch = torch_cuda()
    mod = omnikernel.load_inline("streams", cuda_source=ADD)
    n = 1 << 20
    zero, out = torch.zeros(n, device="cuda"), torch.empty(n, device="cuda")
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        x = torch.zeros(n, device="cuda")
        for turn in range(1, tries + 1):
            torch.cuda._sleep(2_000_000)
            x.fill_(turn)
            mod.add.configure((n + 255) // 256, 256, stream=launch_on)(x, zero, out)
            if launch_on is not None:
                stream.wait_stream(torch.cuda.ExternalStream(launch_on))
            wrong += (out != turn).any()
        return int(wrong)


@needs_gpu
def test_never_stale_on_a_side_stream() -> None:
    torch = torch_cuda()
    assert stale(torch.cuda.Stream(), None, 1000) == 0


@needs_gpu
def test_the_stream_test_can_fail() -> None:
    """A side stream that does not wait for another: what a kernel that ignores the current stream does."""
    torch = torch_cuda()
    other = torch.cuda.Stream()
    assert stale(torch.cuda.Stream(), other.cuda_stream, 50) > 0


@needs_gpu
def test_the_legacy_stream_is_stale_after_a_stream_that_does_not_block() -> None:
    torch = torch_cuda()
    assert stale(torch.cuda.Stream(), 0, 50) > 0


@needs_gpu
def test_a_graph() -> None:
    torch = torch_cuda()
    mod = omnikernel.load_inline("streams", cuda_source=ADD)
    a, b, out = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    mod.add[4, 256](a, b, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        mod.add[4, 256](a, b, out)
    a.fill_(41)
    graph.replay()
    torch.cuda.synchronize()
    assert out.eq(42).all()


@needs_gpu
def test_arrays_on_two_devices_are_refused() -> None:
    torch = torch_cuda()
    mod = omnikernel.load_inline("streams", cuda_source=ADD)
    a, out = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    with pytest.raises(ArgumentTypeError) as caught:
        mod.add[1, 32](a, torch.ones(10), out)
    assert str(caught.value) == (
        "kernel 'add', parameter 'b': expected an array on cuda:0, where the others are, got a torch array on cpu; "
        "move it there first"
    )


@needs_gpu
@pytest.mark.jax
def test_a_jax_array_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_cuda()
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    mod = omnikernel.load_inline("streams", cuda_source=ADD)
    a, out = jax.numpy.arange(100, dtype="float32"), torch.zeros(100, device="cuda")
    mod.add[1, 128](a, a, out)
    assert out.tolist() == [2.0 * i for i in range(100)]


@needs_gpu
def test_launches_that_the_driver_refuses() -> None:
    torch = torch_cuda()
    mod = omnikernel.load_inline("streams", cuda_source=ADD)
    a = torch.ones(10, device="cuda")
    with pytest.raises(CudaError, match=r"^kernel 'add': CUDA error \d+: CUDA_ERROR"):
        mod.add.configure(1 << 20, 1024, cooperative=True)(a, a, a)


@needs_gpu
def test_clusters_dynamic_shared_memory_and_cooperative_launches() -> None:
    torch = torch_cuda()
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs compute capability 9")
    source = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void big(int *out) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < 30000; i += blockDim.x) s[i] = i;
  __syncthreads();
  out[threadIdx.x] = s[29999 - threadIdx.x];
}
__global__ void ranks(int *out) {
  if (threadIdx.x == 0) out[blockIdx.x] = (int)cg::this_cluster().block_rank();
}
__global__ void all(int *out) {
  cg::grid_group grid = cg::this_grid();
  atomicAdd(out, 1);
  grid.sync();
  if (grid.thread_rank() == 0) out[1] = out[0];
}"""
    mod = omnikernel.load_inline("launches", cuda_source=source)
    out = torch.zeros(64, device="cuda", dtype=torch.int32)
    mod.big[1, 64, 120000](out)
    assert out.tolist() == [29999 - t for t in range(64)]
    mod.ranks.configure(8, 32, cluster=4)(out)
    assert out[:8].tolist() == [0, 1, 2, 3] * 2
    out.zero_()
    mod.all.configure(16, 32, cooperative=True)(out)
    assert out[:2].tolist() == [512, 512]


@needs_gpu
def test_indices_of_64_bits() -> None:
    torch = torch_cuda()
    mod = omnikernel.load_inline(
        "wide",
        cuda_source="""#include <omnikernel.h>
__global__ void k(ok::View<signed char, 1> x, long long at) { if (sizeof(ok::index_t) == 8) x[at] = 7; else x[0] = 4; }""",
    )
    x = torch.zeros(2**31 + 10, device="cuda", dtype=torch.int8)
    mod.k[1, 1](x, 2**31 + 5)
    assert int(x[2**31 + 5]) == 7
    mod.k[1, 1](x[:100], 5)
    assert int(x[0]) == 4


@needs_gpu
def test_a_bad_index_in_a_checked_build() -> None:
    """In a process of its own: the error leaves the GPU's context unusable."""
    import subprocess
    import sys

    torch_cuda()
    script = f"""
import torch, omnikernel
mod = omnikernel.load_inline("oob", cuda_source={ADD!r}, checked=True)
x = torch.zeros(10, device="cuda")
mod.stores[1, 1](x, 9)
try:
    mod.stores[1, 1](x, 10)
except omnikernel.cpp.driver.CudaError as error:
    print(error, flush=True)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "oob.cu:7: index 10 is out of bounds for axis 0 of size 10" in run.stdout, run.stderr[-2000:]
    assert "kernel 'stores': CUDA error" in run.stdout


@needs_gpu
def test_an_operator() -> None:
    """Memory of the result comes from torch, on the arrays' device; gradcheck in f64."""
    torch = torch_cuda()
    source = """#include <omnikernel.h>
__global__ void cube(ok::View<const double, 1> x, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = x[i] * x[i] * x[i];
}
__global__ void cube_grad(ok::View<const double, 1> x, ok::View<const double, 1> grad, ok::View<double, 1> out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < out.size(0)) out[i] = 3 * x[i] * x[i] * grad[i];
}"""
    mod = omnikernel.load_inline("cubes", cuda_source=source)

    @omnikernel.op("cpptests::cube_grad")
    def cube_grad(x: omnikernel.Array, grad: omnikernel.Array) -> omnikernel.Array:
        out = omnikernel.empty_like(x)
        mod.cube_grad[omnikernel.cdiv(x.size, 128), 128](x, grad, out)
        return out

    @omnikernel.op("cpptests::cube")
    def cube(x: omnikernel.Array) -> omnikernel.Array:
        out = omnikernel.empty_like(x)
        mod.cube[omnikernel.cdiv(x.size, 128), 128](x, out)
        return out

    cube.def_vjp(lambda saved, grad: cube_grad(saved[0], grad), save=lambda x, out: (x,))
    x = torch.randn(50, device="cuda", dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(cube(x), x**3)
    assert torch.autograd.gradcheck(cube, (x,))
