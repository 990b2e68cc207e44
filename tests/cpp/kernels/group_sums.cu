// Cooperative groups: any group by its base class, tiles of a size known early or late, parts of a warp by label, scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
using namespace cooperative_groups;

__device__ int sum_of(const thread_group &group, int *scratch, int value) {
  const unsigned rank = group.thread_rank();
  scratch[rank] = value;
  for (unsigned step = group.size() / 2; step; step /= 2) {
    group.sync();
    if (rank < step) scratch[rank] += scratch[rank + step];
  }
  group.sync();
  return scratch[0];
}

__global__ void group_sums(const int4 *x, int *out) {
  extern __shared__ int scratch[];
  thread_block block = this_thread_block();
  const int4 four = x[blockIdx.x * blockDim.x + threadIdx.x];
  const int mine = four.x + four.y + four.z + four.w;
  int *to = out + 6 * (blockIdx.x * blockDim.x + threadIdx.x);
  to[0] = sum_of(block, scratch, mine);
  block.sync();

  thread_block_tile<16> sixteen = tiled_partition<16>(block);
  to[1] = reduce(sixteen, mine, plus<int>());
  const thread_group eight = tiled_partition(sixteen, 8);
  to[2] = sum_of(eight, scratch + block.thread_rank() / 8 * 8, mine);

  const coalesced_group alike = labeled_partition(sixteen, mine & 3);
  to[3] = reduce(alike, mine, greater<int>());
  const coalesced_group halves = binary_partition(sixteen, mine > 0);
  to[4] = inclusive_scan(halves, mine);
  to[5] = exclusive_scan(sixteen, mine, plus<int>());
}
