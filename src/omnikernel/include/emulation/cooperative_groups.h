/* Cooperative groups of a block and of tiles of a warp. Grids, clusters and coalesced groups are not emulated. */
#ifndef OMNIKERNEL_COOPERATIVE_GROUPS_H
#define OMNIKERNEL_COOPERATIVE_GROUPS_H
#include "../omnikernel_cuda_cpu.h"

namespace cooperative_groups {

namespace detail {
OK_FN unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
OK_FN unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
} /* namespace detail */

class thread_block {
  public:
    OK_FN void sync(OK_SITE) const { __syncthreads(file, line); }
    OK_FN unsigned thread_rank() const { return detail::thread_rank(); }
    OK_FN unsigned size() const { return detail::block_size(); }
    OK_FN unsigned num_threads() const { return detail::block_size(); }
    OK_FN dim3 group_index() const { return dim3(blockIdx); }
    OK_FN dim3 thread_index() const { return dim3(threadIdx); }
    OK_FN dim3 group_dim() const { return dim3(blockDim); }
};
OK_FN thread_block this_thread_block() { return thread_block(); }

template <unsigned N, class Parent = thread_block> class thread_block_tile {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    OK_FN unsigned mask() const {
        unsigned lane = detail::thread_rank() & 31;
        return N == 32 ? 0xffffffffu : ((1u << (N & 31)) - 1) << (lane & ~(N - 1));
    }
    OK_FN void sync(OK_SITE) const { __syncwarp(mask(), file, line); }
    OK_FN unsigned thread_rank() const { return detail::thread_rank() & (N - 1); }
    static OK_FN constexpr unsigned size() { return N; }
    static OK_FN constexpr unsigned num_threads() { return N; }
    OK_FN unsigned meta_group_rank() const { return detail::thread_rank() / N; }
    OK_FN unsigned meta_group_size() const { return (detail::block_size() + N - 1) / N; }
    template <class T> OK_FN T shfl(T value, int lane, OK_SITE) const { return __shfl_sync(mask(), value, lane, (int)N, file, line); }
    template <class T> OK_FN T shfl_up(T value, unsigned delta, OK_SITE) const { return __shfl_up_sync(mask(), value, delta, (int)N, file, line); }
    template <class T> OK_FN T shfl_down(T value, unsigned delta, OK_SITE) const { return __shfl_down_sync(mask(), value, delta, (int)N, file, line); }
    template <class T> OK_FN T shfl_xor(T value, int lanes, OK_SITE) const { return __shfl_xor_sync(mask(), value, lanes, (int)N, file, line); }
    OK_FN int any(int predicate, OK_SITE) const { return __any_sync(mask(), predicate, file, line); }
    OK_FN int all(int predicate, OK_SITE) const { return __all_sync(mask(), predicate, file, line); }
    OK_FN unsigned ballot(int predicate, OK_SITE) const {
        unsigned lane = detail::thread_rank() & 31;
        return __ballot_sync(mask(), predicate, file, line) >> (lane & ~(N - 1));
    }
};
template <unsigned N, class Parent> OK_FN thread_block_tile<N, Parent> tiled_partition(const Parent &) { return {}; }

template <class T> struct plus { OK_FN T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { OK_FN T operator()(T a, T b) const { return a < b ? a : b; } };
template <class T> struct greater { OK_FN T operator()(T a, T b) const { return a > b ? a : b; } };
template <unsigned N, class Parent, class T, class Op>
OK_FN T reduce(const thread_block_tile<N, Parent> &tile, T value, const Op &op) {
    for (unsigned lanes = N / 2; lanes > 0; lanes /= 2) value = op(value, tile.shfl_xor(value, (int)lanes));
    return value;
}

template <class Group> OK_FN void sync(const Group &group, OK_SITE) { group.sync(file, line); }

} /* namespace cooperative_groups */

#endif
