// Barriers and SIMD-group functions for threadgroups with one thread and SIMD groups with one lane.
#pragma once

namespace metal {
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8
};
MPSX_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
MPSX_FN void threadgroup_barrier(mem_flags) {}
MPSX_FN void simdgroup_barrier(mem_flags, thread_scope) {}
MPSX_FN void threadgroup_barrier(mem_flags, thread_scope) {}
MPSX_FN void simdgroup_barrier(mem_flags) {}
MPSX_FN void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {}

#define MPSX_SIMD_IDENTITY(F)      \
  template <class T>               \
  MPSX_FN T simd_##F(T v) {        \
    return v;                      \
  }
MPSX_SIMD_IDENTITY(sum)
MPSX_SIMD_IDENTITY(product)
MPSX_SIMD_IDENTITY(max)
MPSX_SIMD_IDENTITY(min)
MPSX_SIMD_IDENTITY(and)
MPSX_SIMD_IDENTITY(or)
MPSX_SIMD_IDENTITY(xor)
MPSX_SIMD_IDENTITY(prefix_inclusive_sum)
MPSX_SIMD_IDENTITY(prefix_inclusive_product)
MPSX_SIMD_IDENTITY(broadcast_first)
#undef MPSX_SIMD_IDENTITY
template <class T>
MPSX_FN T simd_prefix_exclusive_sum(T) {
  return T(0);
}
template <class T>
MPSX_FN T simd_prefix_exclusive_product(T) {
  return T(1);
}
MPSX_FN bool simd_any(bool v) { return v; }
MPSX_FN bool simd_all(bool v) { return v; }
MPSX_FN bool simd_is_first() { return true; }
MPSX_FN bool simd_is_helper_thread() { return false; }
class simd_vote {
 public:
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t v) : v_(v) {}
  explicit constexpr operator vote_t() const { return v_; }
  bool any() const { return v_ & 1; }
  bool all() const { return v_ & 1; }

 private:
  vote_t v_;
};
MPSX_FN simd_vote simd_ballot(bool v) { return simd_vote(v); }
MPSX_FN simd_vote simd_active_threads_mask() { return simd_vote(1); }

// Returns the value to use for a read from a different lane, although no such lane exists. In test builds, its bits
// spoil any result, so that a kernel that relies on 32 lanes visibly fails.
template <class T>
MPSX_FN T mpsx_other_lane(T v, bool self) {
#ifdef MPSX_POISON_SHUFFLES
  if (!self) __builtin_memset(&v, 0xff, sizeof v);
#else
  (void)self;
#endif
  return v;
}
#define MPSX_SIMD_SHUFFLE(F)                                       \
  template <class T>                                               \
  MPSX_FN T simd_##F(T v, ushort lane_or_delta) {                  \
    return mpsx_other_lane(v, lane_or_delta == 0);                 \
  }
MPSX_SIMD_SHUFFLE(shuffle)
MPSX_SIMD_SHUFFLE(broadcast)
MPSX_SIMD_SHUFFLE(shuffle_down)
MPSX_SIMD_SHUFFLE(shuffle_up)
MPSX_SIMD_SHUFFLE(shuffle_xor)
#undef MPSX_SIMD_SHUFFLE
template <class T>
MPSX_FN T simd_shuffle_rotate_down(T v, ushort) {
  return v;
}
template <class T>
MPSX_FN T simd_shuffle_rotate_up(T v, ushort) {
  return v;
}
// Shuffles return `fill` for a different lane, because no such lane exists.
#define MPSX_FILL(F)                                                        \
  template <class T>                                                        \
  MPSX_FN T F(T v, T fill, ushort delta, ushort = 1) {                      \
    return delta == 0 ? v : fill;                                           \
  }
MPSX_FILL(simd_shuffle_and_fill_down)
MPSX_FILL(simd_shuffle_and_fill_up)
MPSX_FILL(quad_shuffle_and_fill_down)
MPSX_FILL(quad_shuffle_and_fill_up)
#undef MPSX_FILL

// Quad groups also consist of one thread.
#define MPSX_QUAD(F)                                                        \
  template <class... A>                                                     \
  MPSX_FN auto quad_##F(const A&... a) -> decltype(simd_##F(a...)) {        \
    return simd_##F(a...);                                                  \
  }
MPSX_QUAD(sum)
MPSX_QUAD(product)
MPSX_QUAD(max)
MPSX_QUAD(min)
MPSX_QUAD(and)
MPSX_QUAD(or)
MPSX_QUAD(xor)
MPSX_QUAD(prefix_inclusive_sum)
MPSX_QUAD(prefix_inclusive_product)
MPSX_QUAD(prefix_exclusive_sum)
MPSX_QUAD(prefix_exclusive_product)
MPSX_QUAD(broadcast_first)
MPSX_QUAD(broadcast)
MPSX_QUAD(shuffle)
MPSX_QUAD(shuffle_down)
MPSX_QUAD(shuffle_up)
MPSX_QUAD(shuffle_xor)
MPSX_QUAD(shuffle_rotate_down)
MPSX_QUAD(shuffle_rotate_up)
MPSX_QUAD(any)
MPSX_QUAD(all)
MPSX_QUAD(is_first)
MPSX_QUAD(is_helper_thread)
MPSX_QUAD(ballot)
MPSX_QUAD(active_threads_mask)
#undef MPSX_QUAD
typedef simd_vote quad_vote;
}  // namespace metal
