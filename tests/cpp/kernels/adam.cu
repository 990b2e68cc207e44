// A namespace, an enum, a lambda that captures, launch bounds, 64-bit strides.
#include <cmath>
#include <cstdint>

namespace optim {
enum class Decay : int { coupled = 0, decoupled = 1 };
typedef struct { float beta1, beta2, eps, decay; } Rates;

template <Decay kind, class Step> __device__ void each(float *p, const float *g, float decay, int64_t i, const Step &step) {
  float slope = g[i];
  if constexpr (kind == Decay::coupled) slope += decay * p[i];
  else p[i] -= decay * p[i];
  step(p[i], slope);
}

template <Decay kind>
__global__ void __launch_bounds__(256) adam(float *p, float *m, float *v, const float *g, int64_t n, float lr) {
  const Rates rates = {0.9f, 0.99f, 1e-6f, 0.01f};
  const int64_t threads = int64_t{blockDim.x} * gridDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += threads)
    each<kind>(p, g, rates.decay, i, [&](float &value, float slope) {
      m[i] += (1 - rates.beta1) * (slope - m[i]);
      v[i] += (1 - rates.beta2) * (slope * slope - v[i]);
      value -= lr * m[i] / (std::sqrt(v[i]) + rates.eps);
    });
}
} // namespace optim
