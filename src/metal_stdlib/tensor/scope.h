// How the threads that execute a tensor operation (its scope) access each other's registers on the CPU drivers.
#pragma once

namespace mpsx {
// Return the first row and the group of four columns that a lane holds in a 16x16 fragment. fragment_lane() is the
// inverse.
MPSX_FN int fragment_row(int lane) { return (lane / 4 & 4) + lane / 2 % 4; }
MPSX_FN int fragment_column_group(int lane) { return (lane / 4 & 2) + lane % 2; }
MPSX_FN int fragment_lane(int row, int group) {
  return (row & 4) << 2 | (row & 3) << 1 | (group & 2) << 2 | (group & 1);
}

#ifdef MPSX_SIMT
template <class Scope>
MPSX_FN int scope_thread() {
  if constexpr (scope_size<Scope>::threads == 1) return 0;
  const MPSX_UNCHECKED_SPACE mpsx_thread* const thread =
      (const MPSX_UNCHECKED_SPACE mpsx_thread*)mpsx_simt_current_thread();
  return int(scope_size<Scope>::simdgroups == 1 ? thread->lane : thread->index);
}
MPSX_FN unsigned layout_seed() { return mpsx_simt_layout_seed(); }

// Gives the threads of a scope access to each other's element arrays. The constructor waits until every thread of the
// scope has called it. It reports a fault if some thread never does, or if the dispatch does not have as many SIMD
// groups as the scope. A thread must not change its arrays until all threads have destroyed their `peers`.
template <class Scope>
class peers {
 public:
  MPSX_FN peers(const void* first, const void* second, const char* function, const char* file, int line)
      : mine_{first, second}, site_{nullptr, file, line, function, 0} {
    if constexpr (scope_size<Scope>::simdgroups == 1)
      meet_simdgroup(all_);
    else if constexpr (scope_size<Scope>::simdgroups > 1)
      collected_ = mpsx_simt_collective(mine_, scope_size<Scope>::simdgroups, function, file, line);
    mpsx_simt_fault_site(&site_);
  }
  MPSX_FN ~peers() {
    mpsx_simt_fault_site(nullptr);
    const void* none[MPSX_SIMD_WIDTH];
    if constexpr (scope_size<Scope>::simdgroups == 1)
      meet_simdgroup(none);
    else if constexpr (scope_size<Scope>::simdgroups > 1)
      mpsx_simt_collective(nullptr, scope_size<Scope>::simdgroups, site_.function, site_.file, site_.line);
  }
  // Returns element i of a thread's first (object = 0) or second (object = 1) array.
  template <class T>
  MPSX_FN T get(int thread, int object, int i) const {
    const void* of = mine_;
    if constexpr (scope_size<Scope>::simdgroups == 1)
      of = all_[thread];
    else if constexpr (scope_size<Scope>::simdgroups > 1)
      of = ((const void* const MPSX_UNCHECKED_SPACE*)collected_)[thread];
    const void* const elements = ((const void* const MPSX_UNCHECKED_SPACE*)of)[object];
    T value;
    unchecked_load(value, static_cast<const T*>(elements) + i);
    return value;
  }

 private:
  MPSX_FN void meet_simdgroup(const void** objects) const {
    const lanes_of<const void*> lanes(mine_, site_.function, site_.file, site_.line);
    if (lanes.active != ~0u) mpsx_simt_incomplete_scope(lanes.active, site_.function, site_.file, site_.line);
    for (int i = 0; i < MPSX_SIMD_WIDTH; ++i) objects[i] = lanes.get(unsigned(i));
  }
  const void* mine_[2];
  const mpsx_site site_;
  const void* const* collected_ = nullptr;
  const void* all_[scope_size<Scope>::simdgroups == 1 ? MPSX_SIMD_WIDTH : 1] = {};
};
#else
// If threadgroups have one thread, this thread executes the operations of every scope on its own.
template <class Scope>
MPSX_FN int scope_thread() {
  return 0;
}
MPSX_FN unsigned layout_seed() { return 0; }
template <class Scope>
class peers {
 public:
  MPSX_FN peers(const void* first, const void* second, const char*, const char*, int) : mine_{first, second} {}
  template <class T>
  MPSX_FN T get(int, int object, int i) const {
    return static_cast<const T*>(mine_[object])[i];
  }

 private:
  const void* mine_[2];
};
#  define MPSX_CALL_SITE const char *mpsx_file = nullptr, int mpsx_line = 0
#endif
}  // namespace mpsx
