/* Cooperative groups of a block, of tiles of a warp, and of the threads of a warp that are together. Groups of a grid or of
 * a cluster are not emulated. */
#ifndef OMNIKERNEL_COOPERATIVE_GROUPS_H
#define OMNIKERNEL_COOPERATIVE_GROUPS_H
#include "../omnikernel_cuda_cpu.h"

namespace cooperative_groups {

namespace detail {
OK_FN unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
OK_FN unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
OK_FN unsigned lane() { return thread_rank() & 31; }
/* The lanes of this thread's tile of n threads, a power of two. */
OK_FN unsigned tile_mask(unsigned n) { return n == 32 ? 0xffffffffu : ((1u << n) - 1) << (lane() & ~(n - 1)); }
/* The lane of the thread whose rank among those of `mask` this is. */
OK_FN unsigned lane_of(unsigned mask, unsigned rank) {
    for (; rank; rank--) mask &= mask - 1;
    return (unsigned)__builtin_ctz(mask | 0x80000000u);
}
/* The bits of `mask` in `bits`, side by side. */
OK_FN unsigned packed(unsigned bits, unsigned mask) {
    unsigned found = 0;
    for (unsigned to = 1; mask; mask &= mask - 1, to <<= 1)
        if (bits & mask & (0u - mask)) found |= to;
    return found;
}
} /* namespace detail */

/* Any group: the whole block, or the lanes of a mask. */
class thread_group {
  public:
    OK_FN void sync(OK_SITE) const {
        if (mask_) __syncwarp(mask_, file, line);
        else __syncthreads(file, line);
    }
    OK_FN unsigned size() const { return mask_ ? (unsigned)__builtin_popcount(mask_) : detail::block_size(); }
    OK_FN unsigned num_threads() const { return size(); }
    OK_FN unsigned thread_rank() const {
        return mask_ ? (unsigned)__builtin_popcount(mask_ & ((1u << detail::lane()) - 1)) : detail::thread_rank();
    }
    OK_FN unsigned mask() const { return mask_; }

  protected:
    OK_FN explicit thread_group(unsigned mask) : mask_(mask) {}
    unsigned mask_; /* 0: the block */
    friend thread_group tiled_partition(const thread_group &parent, unsigned n);
};

class thread_block : public thread_group {
  public:
    OK_FN dim3 group_index() const { return dim3(blockIdx); }
    OK_FN dim3 thread_index() const { return dim3(threadIdx); }
    OK_FN dim3 group_dim() const { return dim3(blockDim); }
    OK_FN dim3 dim_threads() const { return dim3(blockDim); }

  private:
    OK_FN thread_block() : thread_group(0) {}
    friend thread_block this_thread_block();
};
OK_FN thread_block this_thread_block() { return thread_block(); }

/* Threads of a warp that are together, in order of their lanes. */
class coalesced_group : public thread_group {
  public:
    OK_FN explicit coalesced_group(unsigned mask) : thread_group(mask) {}
    OK_FN unsigned meta_group_rank() const { return 0; }
    OK_FN unsigned meta_group_size() const { return 1; }
    template <class T> OK_FN T shfl(T value, unsigned rank, OK_SITE) const { return from(value, rank % size(), file, line); }
    template <class T> OK_FN T shfl_up(T value, unsigned delta, OK_SITE) const {
        unsigned rank = thread_rank();
        return from(value, rank < delta ? rank : rank - delta, file, line);
    }
    template <class T> OK_FN T shfl_down(T value, unsigned delta, OK_SITE) const {
        unsigned rank = thread_rank();
        return from(value, rank + delta < size() ? rank + delta : rank, file, line);
    }
    OK_FN int any(int predicate, OK_SITE) const { return __any_sync(mask_, predicate, file, line); }
    OK_FN int all(int predicate, OK_SITE) const { return __all_sync(mask_, predicate, file, line); }
    OK_FN unsigned ballot(int predicate, OK_SITE) const {
        return detail::packed(__ballot_sync(mask_, predicate, file, line), mask_);
    }
    template <class T> OK_FN unsigned match_any(T value, OK_SITE) const {
        return detail::packed(__match_any_sync(mask_, value, file, line), mask_);
    }

  private:
    template <class T> OK_FN T from(T value, unsigned rank, const char *file, int line) const {
        return __shfl_sync(mask_, value, (int)detail::lane_of(mask_, rank), 32, file, line);
    }
};
OK_FN coalesced_group coalesced_threads(OK_SITE) { return coalesced_group(__activemask(file, line)); }

template <unsigned N, class Parent = thread_block> class thread_block_tile : public thread_group {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    OK_FN thread_block_tile() : thread_group(detail::tile_mask(N)) {}
    OK_FN unsigned thread_rank() const { return detail::thread_rank() & (N - 1); }
    static OK_FN constexpr unsigned size() { return N; }
    static OK_FN constexpr unsigned num_threads() { return N; }
    OK_FN unsigned meta_group_rank() const { return detail::thread_rank() / N; }
    OK_FN unsigned meta_group_size() const { return (detail::block_size() + N - 1) / N; }
    template <class T> OK_FN T shfl(T value, int lane, OK_SITE) const { return __shfl_sync(mask_, value, lane, (int)N, file, line); }
    template <class T> OK_FN T shfl_up(T value, unsigned delta, OK_SITE) const { return __shfl_up_sync(mask_, value, delta, (int)N, file, line); }
    template <class T> OK_FN T shfl_down(T value, unsigned delta, OK_SITE) const { return __shfl_down_sync(mask_, value, delta, (int)N, file, line); }
    template <class T> OK_FN T shfl_xor(T value, int lanes, OK_SITE) const { return __shfl_xor_sync(mask_, value, lanes, (int)N, file, line); }
    OK_FN int any(int predicate, OK_SITE) const { return __any_sync(mask_, predicate, file, line); }
    OK_FN int all(int predicate, OK_SITE) const { return __all_sync(mask_, predicate, file, line); }
    OK_FN unsigned ballot(int predicate, OK_SITE) const { return inside(__ballot_sync(mask_, predicate, file, line)); }
    template <class T> OK_FN unsigned match_any(T value, OK_SITE) const { return inside(__match_any_sync(mask_, value, file, line)); }

  private:
    OK_FN unsigned inside(unsigned bits) const { return bits >> (detail::lane() & ~(N - 1)); }
};
template <unsigned N, class Parent> OK_FN thread_block_tile<N, Parent> tiled_partition(const Parent &) { return {}; }

/* Tiles of a size that is known when the kernel runs; of a group of lanes, so many of its threads in order of rank. */
OK_FN thread_group tiled_partition(const thread_group &parent, unsigned n) {
    if (n == 0 || n > 32 || (n & (n - 1))) ok::fail("tiled_partition: a tile has 1, 2, 4, 8, 16 or 32 threads, got %u", n);
    if (!parent.mask()) return thread_group(detail::tile_mask(n));
    unsigned mask = 0, low = parent.thread_rank() & ~(n - 1);
    for (unsigned rank = low; rank < low + n && rank < parent.size(); rank++) mask |= 1u << detail::lane_of(parent.mask(), rank);
    return thread_group(mask);
}
template <class Group, class T> OK_FN coalesced_group labeled_partition(const Group &group, T label, OK_SITE) {
    return coalesced_group(__match_any_sync(group.mask(), label, file, line));
}
template <class Group> OK_FN coalesced_group binary_partition(const Group &group, bool predicate, OK_SITE) {
    unsigned yes = __ballot_sync(group.mask(), predicate, file, line);
    return coalesced_group(predicate ? yes : group.mask() & ~yes);
}

template <class T> struct plus { OK_FN T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { OK_FN T operator()(T a, T b) const { return a < b ? a : b; } };
template <class T> struct greater { OK_FN T operator()(T a, T b) const { return a > b ? a : b; } };
template <class T> struct bit_and { OK_FN T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { OK_FN T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { OK_FN T operator()(T a, T b) const { return a ^ b; } };
template <unsigned N, class Parent, class T, class Op>
OK_FN T reduce(const thread_block_tile<N, Parent> &tile, T value, const Op &op, OK_SITE) {
    for (unsigned lanes = N / 2; lanes > 0; lanes /= 2) value = op(value, tile.shfl_xor(value, (int)lanes, file, line));
    return value;
}
template <class T, class Op> OK_FN T reduce(const coalesced_group &group, T value, const Op &op, OK_SITE) {
    T found = group.shfl(value, 0, file, line);
    for (unsigned rank = 1; rank < group.size(); rank++) found = op(found, group.shfl(value, rank, file, line));
    return found;
}
/* The threads of lower rank, this one included. */
template <class Group, class T, class Op> OK_FN T inclusive_scan(const Group &group, T value, const Op &op, OK_SITE) {
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T other = group.shfl_up(value, delta, file, line);
        if (group.thread_rank() >= delta) value = op(other, value);
    }
    return value;
}
template <class Group, class T> OK_FN T inclusive_scan(const Group &group, T value, OK_SITE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}
/* The threads of lower rank; T() for the first. */
template <class Group, class T, class Op> OK_FN T exclusive_scan(const Group &group, T value, const Op &op, OK_SITE) {
    T found = group.shfl_up(inclusive_scan(group, value, op, file, line), 1, file, line);
    return group.thread_rank() ? found : T();
}
template <class Group, class T> OK_FN T exclusive_scan(const Group &group, T value, OK_SITE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}

template <class Group> OK_FN void sync(const Group &group, OK_SITE) { group.sync(file, line); }

} /* namespace cooperative_groups */

#endif
