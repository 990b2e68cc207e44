// A block a query: scores of a tile of keys in shared memory, the running maximum and sum that need no second pass.
#include <omnikernel.h>
template <int kWidth, int kKeys>
__global__ void attention(ok::View<const float, 2> q, ok::View<const float, 2> k, ok::View<const float, 2> v,
                          ok::View<float, 2> out, float scale, bool causal) {
  static __shared__ float query[kWidth], weight[kKeys];
  __shared__ float shrink, sum, top;
  const int row = blockIdx.x, t = threadIdx.x;
  float mine = 0.f;
  if (t < kWidth) query[t] = q(row, t) * scale;
  if (t == 0) top = -INFINITY, sum = 0.f;
  const int keys = causal ? row + 1 : (int)k.size(0);
  for (int start = 0; start < keys; start += kKeys) {
    __syncthreads();
    for (int j = t; j < kKeys; j += blockDim.x) {
      float dot = -INFINITY;
      if (start + j < keys) {
        dot = 0.f;
        for (int d = 0; d < kWidth; d++) dot = __fmaf_rn(query[d], k(start + j, d), dot);
      }
      weight[j] = dot;
    }
    __syncthreads();
    if (t == 0) {
      float most = top;
      for (int j = 0; j < kKeys; j++) most = fmaxf(most, weight[j]);
      shrink = __expf(top - most), top = most, sum *= shrink;
      for (int j = 0; j < kKeys; j++) sum += weight[j] = __expf(weight[j] - most);
    }
    __syncthreads();
    if (t < kWidth) {
      mine *= shrink;
      for (int j = 0; j < kKeys && start + j < keys; j++) mine += weight[j] * v(start + j, t);
    }
  }
  if (t < kWidth) out(row, t) = mine / sum;
}
