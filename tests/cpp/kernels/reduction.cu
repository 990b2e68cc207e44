// Sum of an array: a warp shuffles, warps meet in shared memory, blocks meet in one atomic.
#include <omnikernel.h>

__inline__ __device__ float warp_sum(float v) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}

__inline__ __device__ float block_sum(float v) {
  static __shared__ float partial[32];
  int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  v = warp_sum(v);
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  v = (threadIdx.x < blockDim.x / warpSize) ? partial[lane] : 0.0f;
  if (warp == 0) v = warp_sum(v);
  return v;
}

__global__ void reduce_sum(ok::View<const float, 1> x, ok::View<float, 1> out) {
  float v = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < x.size(0); i += blockDim.x * gridDim.x) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) atomicAdd(&out[0], v);
}
