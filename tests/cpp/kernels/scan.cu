// Inclusive scan of rows: Hillis and Steele's in dynamic shared memory, two buffers, a carry between chunks.
#include <omnikernel.h>

__global__ void inclusive_scan(ok::View<const int, 2> x, ok::View<int, 2> out) {
  extern __shared__ int buffer[];
  __shared__ int carry;
  int n = x.size(1), t = threadIdx.x, width = blockDim.x, row = blockIdx.x;
  if (t == 0) carry = 0;
  for (int start = 0; start < n; start += width) {
    int from = 0, to = 1;
    buffer[t] = start + t < n ? x[row][start + t] : 0;
    __syncthreads();
    for (int offset = 1; offset < width; offset *= 2) {
      buffer[to * width + t] = buffer[from * width + t] + (t >= offset ? buffer[from * width + t - offset] : 0);
      int swap = from;
      from = to;
      to = swap;
      __syncthreads();
    }
    int before = carry;
    if (start + t < n) out[row][start + t] = before + buffer[from * width + t];
    __syncthreads();
    if (t == width - 1) carry = before + buffer[from * width + t];
    __syncthreads();
  }
}
