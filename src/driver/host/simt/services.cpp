// The functions that the engine provides to kernels.
#include <cstdio>
#include <cstring>

#include "driver/dispatch_check.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/memory_check.h"

namespace mpsx::driver::host::simt {

struct Services {
  static bool is_single_thread(const Worker* w) { return !w || !w->fibers_; }

  static void threadgroup_barrier(const Site* site) {
    Worker* w = Worker::active();
    if (!is_single_thread(w)) w->wait_at_threadgroup_barrier(*site);
  }

  static void simdgroup_barrier(const Site* site) {
    Worker* w = Worker::active();
    if (!is_single_thread(w)) w->wait_at_simdgroup_barrier(*site);
  }

  static mpsx_lanes* exchange(const void* value, unsigned bytes, unsigned* lane, const Site* site) {
    Worker* w = Worker::active();
    if (is_single_thread(w)) return exchange_single(value, bytes, lane);
    Worker::Lane& me = *w->lane_;
    Worker::SimdGroup& g = *w->simd_;
    me.is_long = bytes > sizeof me.slots[0];
    if (me.is_long) {
      std::memcpy(w->long_slots_[me.index].slots[me.parity], value, bytes);
    } else {  // copy two words, like the kernel's stores, so that store forwarding works
      const auto* words = static_cast<const uint64_t*>(value);
      auto* slot = reinterpret_cast<uint64_t*>(me.slots[me.parity]);
      slot[0] = words[0];
      slot[1] = words[1];
    }
    me.parity ^= 1;
    me.site = site;
    me.address = site->address;
    *lane = me.index % MPSX_SIMD_WIDTH;
    g.in_simd_function |= 1u << *lane;
    w->reschedule(me);
    return &g.lanes;
  }

  // Handles SIMD groups with a single lane.
  static mpsx_lanes* exchange_single(const void* value, unsigned bytes, unsigned* lane) {
    thread_local mpsx_lanes lanes;
    thread_local unsigned char slot[MPSX_MAX_EXCHANGE_BYTES];
    std::memcpy(slot, value, bytes);
    lanes.active = lanes.count = 1;
    lanes.value[0] = slot;
    lanes.memo_set = 0;
    *lane = 0;
    return &lanes;
  }

  static int inactive_lane(unsigned source, const Site* site) {
    Worker* w = Worker::active();
    if (is_single_thread(w) || !w->job_->strict) return 0;
    const mpsx_thread& t = w->thread();
    const Worker::SimdGroup& g = *w->simd_;
    // Reading past the end of a partial SIMD group is not a fault. In Metal the value is undefined, and PyTorch's
    // 64-bit reductions (c10/metal/reduction_utils.h) rely on it being 0.
    if (source >= g.count) return 0;
    const bool done = g.done >> source & 1u;
    char text[160];
    std::snprintf(text, sizeof text, "%s: lane %u of SIMD group %u reads lane %u, which %s", site->function, t.lane,
                  t.simdgroup, source, done ? "has returned" : "is not active here");
    w->fault(text, *site);
  }

  static void* threadgroup_variable(unsigned key, unsigned bytes, const char* name) {
    Worker* w = Worker::active();
    bool made = false;
    void* p = w->arena_.variable(MPSX_MAX_BUFFERS + key, bytes, name, &made);
    if (!p || (made && w->job_->strict && w->arena_.bytes() > kMaxThreadgroupMemory))
      w->fault("expected at most " + std::to_string(kMaxThreadgroupMemory) + " bytes of threadgroup memory, got " +
                   std::to_string(w->arena_.bytes() + (p ? 0 : bytes)) + " with variable '" + name + "'",
               nullptr, 0);
    if (made && w->monitor_) w->monitor_->variable(*w, w->arena_.variables()[MPSX_MAX_BUFFERS + key]);
    return p;
  }

  static const mpsx_thread* current_thread() { return &Worker::active()->thread(); }

  static unsigned layout_seed() { return unsigned(Worker::active()->job_->seed); }

  static const void* const* collective(const void* value, unsigned simdgroups, const Site* site) {
    Worker* w = Worker::active();
    const unsigned expected = simdgroups * MPSX_SIMD_WIDTH;
    if (is_single_thread(w) || w->count_ != expected) {
      char text[200];
      std::snprintf(text, sizeof text,
                    "%s: expected a threadgroup of %u threads for execution_simdgroups<%u>, got one of %u",
                    site->function, expected, simdgroups, w->count_);
      w->fault(text, *site);
    }
    w->collected_.resize(w->count_);
    if (value) w->collected_[w->lane_->index] = value;
    w->wait_at_threadgroup_barrier(*site);
    return w->collected_.data();
  }

  static void incomplete_scope(unsigned active, const Site* site) {
    Worker* w = Worker::active();
    char text[160];
    std::snprintf(text, sizeof text, "%s: expected all %d lanes of SIMD group %u to call it together, got %d",
                  site->function, MPSX_SIMD_WIDTH, w->thread().simdgroup, __builtin_popcount(active));
    w->fault(text, *site);
  }

  static void fault_site(const Site* site) { Worker::active()->fault_site_ = site; }
};

const mpsx_simt_services kServices = {&Services::threadgroup_barrier,
                                      &Services::simdgroup_barrier,
                                      &Services::exchange,
                                      &Services::inactive_lane,
                                      &Services::threadgroup_variable,
                                      &Services::current_thread,
                                      &Services::layout_seed,
                                      &Services::collective,
                                      &Services::incomplete_scope,
                                      &Services::fault_site,
                                      &check_read,
                                      &check_write,
                                      &check_atomic,
                                      &check_misaligned,
                                      &array_index};

}  // namespace mpsx::driver::host::simt
