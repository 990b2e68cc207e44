// A template over the element type and the block, a block-wide sum in a device function with shared memory of its own.
#include <omnikernel.h>
#include <cuda_fp16.h>
#include <type_traits>

constexpr unsigned kAll = 0xffffffffu;
template <typename T> using acc_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename A, int kThreads> __device__ __forceinline__ A sum_over_block(A mine) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024, "whole warps");
  __shared__ A of_warps[kThreads / 32];
  #pragma unroll
  for (int lanes = 16; lanes >= 1; lanes >>= 1) mine += __shfl_xor_sync(kAll, mine, lanes);
  if ((threadIdx.x & 31u) == 0u) of_warps[threadIdx.x >> 5] = mine;
  __syncthreads();
  A all{0};
  for (const A &part : of_warps) all += part;
  return all;
}

template <typename T, int kThreads = 128>
__global__ void __launch_bounds__(kThreads, 2)
rms_norm(const T *__restrict__ x, T const *const __restrict__ weight, T *__restrict__ out, const int width, float eps) {
  const T *row = x + static_cast<size_t>(blockIdx.x) * width;
  acc_t<T> squares = 0;
  for (int c = threadIdx.x; c < width; c += kThreads) {
    const auto v = static_cast<acc_t<T>>(row[c]);
    squares = fma(v, v, squares);
  }
  squares = sum_over_block<acc_t<T>, kThreads>(squares);
  const acc_t<T> scale = rsqrt(squares / width + eps);
  for (int c = threadIdx.x; c < width; c += kThreads)
    out[(size_t)blockIdx.x * width + c] = T((acc_t<T>)row[c] * scale) * weight[c];
}
