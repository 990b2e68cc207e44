// Two arrays of different types in one piece of dynamic shared memory, a tree over a block of any size.
__device__ __forceinline__ bool better(float a, int i, float b, int j) { return a > b || (a == b && i < j); }

__global__ void row_argmax(const float *x, long long *where, int columns) {
  extern __shared__ __align__(8) unsigned char pool[];
  float *values = reinterpret_cast<float *>(pool);
  int *places = (int *)(values + blockDim.x);
  const unsigned me = threadIdx.x;
  float best = -INFINITY;
  int place = INT_MAX;
  for (int c = me; c < columns; c += blockDim.x) {
    const float v = __ldg(&x[(size_t)blockIdx.x * columns + c]);
    if (better(v, c, best, place)) best = v, place = c;
  }
  values[me] = best, places[me] = place;
  for (unsigned left = blockDim.x; left > 1;) {
    const unsigned half_way = (left + 1) / 2;
    __syncthreads();
    if (me < left / 2 && better(values[me + half_way], places[me + half_way], values[me], places[me])) {
      values[me] = values[me + half_way];
      places[me] = places[me + half_way];
    }
    left = half_way;
  }
  __syncthreads();
  if (me == 0) where[blockIdx.x] = places[0];
}
