// Softmax of rows, a warp a row, reductions by butterfly shuffles; a template over the element type.
#include <omnikernel.h>

template <typename T>
__device__ __forceinline__ T warp_max(T v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v = max(v, __shfl_xor_sync(0xffffffff, v, mask, 32));
  return v;
}
template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask, 32);
  return v;
}

template <typename T>
__global__ void softmax(ok::View<const T, 2> x, ok::View<T, 2> out) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= x.size(0)) return;
  const int n = x.size(1);
  float most = -INFINITY;
  for (int i = lane; i < n; i += 32) most = fmaxf(most, static_cast<float>(x[row][i]));
  most = warp_max(most);
  float total = 0.0f;
  for (int i = lane; i < n; i += 32) total += expf(static_cast<float>(x[row][i]) - most);
  total = warp_sum(total);
  for (int i = lane; i < n; i += 32) out[row][i] = static_cast<T>(expf(static_cast<float>(x[row][i]) - most) / total);
}
