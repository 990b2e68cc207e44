// Atomics that CUDA has not, by compare-and-swap on the bits; a grid-stride loop; a functor and a lambda as arguments.
#include <float.h>

template <typename F> __device__ float change(float *place, F next) {
  unsigned int *bits = reinterpret_cast<unsigned int *>(place);
  unsigned int seen = *bits, expected;
  do {
    expected = seen;
    seen = atomicCAS(bits, expected, __float_as_uint(next(__uint_as_float(expected))));
  } while (seen != expected);
  return __uint_as_float(seen);
}
struct Smaller {
  float by;
  __device__ float operator()(float old) const { return fminf(old, by); }
};

__global__ void extremes(const float *x, float *range, unsigned n) {
  float low = FLT_MAX, high = -FLT_MAX;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    low = min(low, x[i]);
    high = max(high, x[i]);
  }
  change(range, Smaller{low});
  change(range + 1, [=] __device__(float old) { return fmaxf(old, high); });
}
