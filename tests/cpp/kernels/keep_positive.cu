// Atomics joined by the threads of a warp that are together: by ballot and shuffle, and by a coalesced group.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int slot_by_ballot(int *counter) {
  const unsigned here = __activemask();
  const int lane = threadIdx.x % warpSize, first = __ffs((int)here) - 1;
  int base = 0;
  if (lane == first) base = atomicAdd(counter, __popc(here));
  base = __shfl_sync(here, base, first);
  return base + __popc(here & ((1u << lane) - 1u));
}
__device__ int slot_by_group(int *counter) {
  const cg::coalesced_group together = cg::coalesced_threads();
  int base = 0;
  if (together.thread_rank() == 0) base = atomicAdd(counter, (int)together.size());
  return together.shfl(base, 0) + together.thread_rank();
}

__global__ void keep_positive(const int *x, int n, int *kept, int *count, bool by_group) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || x[i] <= 0) return;
  if (by_group) {
    kept[slot_by_group(count)] = x[i];
  } else {
    kept[slot_by_ballot(count)] = x[i];
  }
}
