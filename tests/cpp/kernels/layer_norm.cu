// Backward of layer norm: dx by two block reductions a row, dweight and dbias by atomics.
#include <omnikernel.h>

__device__ float2 block_sum(float2 v, float2 *shared) {
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  for (int offset = 16; offset > 0; offset >>= 1) {
    v.x += __shfl_xor_sync(~0u, v.x, offset);
    v.y += __shfl_xor_sync(~0u, v.y, offset);
  }
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  v = lane < warps ? shared[lane] : make_float2(0.f, 0.f);
  for (int offset = 16; offset > 0; offset >>= 1) {
    v.x += __shfl_xor_sync(~0u, v.x, offset);
    v.y += __shfl_xor_sync(~0u, v.y, offset);
  }
  return v;
}

__global__ void layer_norm_backward(ok::View<const float, 2> dy, ok::View<const float, 2> x,
                                    ok::View<const float, 1> weight, ok::View<const float, 1> mean,
                                    ok::View<const float, 1> rstd, ok::View<float, 2> dx, ok::View<float, 1> dweight,
                                    ok::View<float, 1> dbias) {
  __shared__ float2 shared[32];
  const int row = blockIdx.x, n = x.size(1);
  const float m = mean[row], r = rstd[row];
  float2 sums = make_float2(0.f, 0.f);
  for (int j = threadIdx.x; j < n; j += blockDim.x) {
    float normal = (x[row][j] - m) * r, g = dy[row][j] * weight[j];
    sums.x += g;
    sums.y += g * normal;
    atomicAdd(&dweight[j], dy[row][j] * normal);
    atomicAdd(&dbias[j], dy[row][j]);
  }
  sums = block_sum(sums, shared);
  for (int j = threadIdx.x; j < n; j += blockDim.x) {
    float normal = (x[row][j] - m) * r, g = dy[row][j] * weight[j];
    dx[row][j] = r * (g - (sums.x + normal * sums.y) / n);
  }
}
