// C = A B, 16 x 16 tiles of both in shared memory.
#include <omnikernel.h>

constexpr int BLOCK_SIZE = 16;

__global__ void __launch_bounds__(256) matmul(ok::View<const float, 2> a, ok::View<const float, 2> b, ok::View<float, 2> c) {
  __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
  __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * BLOCK_SIZE + ty, column = blockIdx.x * BLOCK_SIZE + tx;
  float sum = 0.0f;
  for (int k = 0; k < a.size(1); k += BLOCK_SIZE) {
    As[ty][tx] = row < a.size(0) && k + tx < a.size(1) ? a[row][k + tx] : 0.0f;
    Bs[ty][tx] = k + ty < b.size(0) && column < b.size(1) ? b[k + ty][column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BLOCK_SIZE; ++i) sum += As[ty][i] * Bs[i][tx];
    __syncthreads();
  }
  if (row < c.size(0) && column < c.size(1)) c[row][column] = sum;
}
