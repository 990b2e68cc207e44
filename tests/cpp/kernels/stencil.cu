// Seven-point average of a line, with a halo of three in shared memory.
#include <omnikernel.h>

#define RADIUS 3
#define BLOCK 128

__global__ void stencil_1d(ok::View<const double, 1> in, ok::View<double, 1> out) {
  __shared__ double temp[BLOCK + 2 * RADIUS];
  int g = threadIdx.x + blockIdx.x * blockDim.x, l = threadIdx.x + RADIUS, n = in.size(0);
  temp[l] = g < n ? in[g] : 0.0;
  if (threadIdx.x < RADIUS) {
    temp[l - RADIUS] = g >= RADIUS ? in[g - RADIUS] : 0.0;
    temp[l + BLOCK] = g + BLOCK < n ? in[g + BLOCK] : 0.0;
  }
  __syncthreads();
  if (g >= n) return;
  double result = 0.0;
  for (int offset = -RADIUS; offset <= RADIUS; offset++) result += temp[l + offset];
  out[g] = result / (2 * RADIUS + 1);
}
