// The scheduler. Selects the next fiber of a threadgroup to run, and resumes waiting lanes when no lane can run.
#include <algorithm>
#include <string_view>

#include "driver/host/interrupt.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/format.h"

namespace mpsx::driver::host::simt {
namespace {

uint32_t bits(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }
unsigned lowest(uint32_t mask) { return unsigned(__builtin_ctz(mask)); }
bool same_source(const Site& a, const Site& b) {
  return a.line == b.line && std::string_view(a.file) == b.file && std::string_view(a.function) == b.function;
}
const char* plural(unsigned n) { return n == 1 ? "" : "s"; }

}  // namespace

void Worker::run_as_fibers() {
  done_ = at_barrier_ = 0;
  turn_ = 0;
  for (Lane& lane : lanes_) lane.sp = nullptr;
  for (SimdGroup& g : simdgroups_) {
    g.ready = bits(g.count);
    g.in_simd_function = g.at_simdgroup_barrier = g.at_barrier = g.done = 0;
    g.lanes.count = g.count;
  }
  simd_ = &simdgroups_[turns_[0]];
  next_lane();
  mpsx_simt_start(&main_, stacks_.top(lane_->index), &Worker::fiber_main);
}

void Worker::fiber_main() {
  Worker& w = *here();
  Lane& me = *w.lane_;
  const Job& job = *w.job_;
  job.record->thread_entry(w.args_, &job.launch, &w.threads_[me.index]);
  w.simd_->done |= 1u << me.index % MPSX_SIMD_WIDTH;
  ++w.done_;
  w.reschedule(me);
  __builtin_unreachable();
}

// Called when no lane of the SIMD group can run.
void Worker::reschedule_slow(Lane& me) {
  do {
    if (!resume_lanes(*simd_) && !next_simdgroup()) finish_threadgroup_barrier();
  } while (!simd_->ready);
  Lane& next = next_lane();
  if (&next == &me) return;
  if (next.sp) return mpsx_simt_switch(&me.sp, next.sp);
  mpsx_simt_start(&me.sp, stacks_.top(next.index), &Worker::fiber_main);
}

void Worker::release(SimdGroup& g, uint32_t lanes) {
  if (lanes == bits(g.count)) {
    g.ready = lanes;
    return;
  }
  for (; lanes; lanes &= lanes - 1) g.ready |= 1u << g.position[lowest(lanes)];
}

// Finds the lanes at the SIMD function call that comes first in the code. Publishes their values and returns their
// mask.
uint32_t Worker::collect_converged(SimdGroup& g) {
  Lane* const lanes = &lanes_[g.first];
  const void* first = lanes[lowest(g.in_simd_function)].address;
  for (uint32_t left = g.in_simd_function; left; left &= left - 1) first = std::min(first, lanes[lowest(left)].address);
  uint32_t met = 0;
  for (uint32_t left = g.in_simd_function; left; left &= left - 1) {
    const unsigned i = lowest(left);
    Lane& lane = lanes[i];
    if (lane.address != first) continue;
    met |= 1u << i;
    const unsigned last = lane.parity ^ 1u;
    g.lanes.value[i] = lane.is_long ? long_slots_[lane.index].slots[last] : lane.slots[last];
  }
  return met;
}

// Called when no lane of the SIMD group can run. Resumes the lanes that have converged in a SIMD function or at a
// simdgroup_barrier. Returns false if there are none.
bool Worker::resume_lanes(SimdGroup& g) {
  if (g.in_simd_function) {
    const uint32_t met = collect_converged(g);
    g.lanes.active = met;
    g.lanes.memo_set = 0;
    g.in_simd_function &= ~met;
    release(g, met);
    if (monitor_) monitor_->lanes_converged(*this, g.first / MPSX_SIMD_WIDTH, met, *lanes_[g.first + lowest(met)].site);
    return true;
  }
  if (!g.at_simdgroup_barrier) return false;
  const Lane* const lanes = &lanes_[g.first];
  const Lane& one = lanes[lowest(g.at_simdgroup_barrier)];
  const mpsx_thread& thread = threads_[one.index];
  const Site& site = *one.site;
  for (uint32_t left = g.at_simdgroup_barrier | g.at_barrier; left; left &= left - 1) {
    const unsigned i = lowest(left);
    if (lanes[i].address == one.address) continue;
    abandon(format("%s is reached by lane %u of SIMD group %u, while lane %u waits at another barrier, %s:%d",
                   site.function, thread.lane, thread.simdgroup, i, lanes[i].site->file, lanes[i].site->line),
            site.file, site.line, thread);
  }
  if (g.done && job_->strict) {
    const auto gone = unsigned(__builtin_popcount(g.done));
    abandon(format("%s is not reached by all lanes of SIMD group %u: %u lane%s of %u returned before it", site.function,
                   thread.simdgroup, gone, plural(gone), g.count),
            site.file, site.line, thread);
  }
  release(g, g.at_simdgroup_barrier);
  g.at_simdgroup_barrier = 0;
  if (monitor_) monitor_->simdgroup_barrier(*this, g.first / MPSX_SIMD_WIDTH, site);
  return true;
}

bool Worker::next_simdgroup() {
  if (++turn_ >= turns_.size()) return false;
  simd_ = &simdgroups_[turns_[turn_]];
  return true;
}

// Called when every thread has returned or is waiting at the threadgroup barrier.
void Worker::finish_threadgroup_barrier() {
  if (!at_barrier_) {
    if (monitor_) monitor_->end_group(*this);
    leave();
  }
  if (done_ && job_->strict) {
    const SimdGroup* g = simdgroups_.data();
    while (!g->done) ++g;
    const unsigned* p = threads_[g->first + lowest(g->done)].local;
    const Site& site = *first_->site;
    abandon(format("%s is not reached by all threads: %u of %u returned before it, such as thread (%u, %u, %u)",
                   site.function, done_, count_, p[0], p[1], p[2]),
            site.file, site.line, threads_[first_->index]);
  }
  if (job_->interruptible && is_interrupted(job_->interrupts)) fault("interrupted", nullptr, 0);
  if (monitor_) monitor_->threadgroup_barrier(*this, *first_->site);
  for (SimdGroup& g : simdgroups_) {
    release(g, g.at_barrier);
    g.at_barrier = 0;
  }
  at_barrier_ = 0;
  turn_ = 0;
  simd_ = &simdgroups_[turns_[0]];
}

void Worker::wait_at_threadgroup_barrier(const Site& site) {
  Lane& me = *lane_;
  me.site = &site;
  me.address = site.address;
  // SIMD groups may wait at different instantiations of a barrier, for example if each of them calls a generic lambda
  // that is instantiated for its tile. But all lanes of a SIMD group must be at the same instantiation.
  const Lane* peer = simd_->at_barrier ? &lanes_[simd_->first + lowest(simd_->at_barrier)] : nullptr;
  simd_->at_barrier |= 1u << me.index % MPSX_SIMD_WIDTH;
  if (!at_barrier_++) first_ = &me;
  if (!peer && !same_source(*first_->site, site)) peer = first_;
  if (peer && peer->address != me.address) {
    const unsigned* p = threads_[peer->index].local;
    fault(format("%s is reached while thread (%u, %u, %u) waits at another barrier, %s:%d", site.function, p[0], p[1],
                 p[2], peer->site->file, peer->site->line),
          site);
  }
  reschedule(me);
}

void Worker::wait_at_simdgroup_barrier(const Site& site) {
  Lane& me = *lane_;
  me.site = &site;
  me.address = site.address;
  simd_->at_simdgroup_barrier |= 1u << me.index % MPSX_SIMD_WIDTH;
  reschedule(me);
}

}  // namespace mpsx::driver::host::simt
