// Which fiber of a threadgroup runs next, and who may go on when all wait.
#include <cstdio>

#include "driver/host/simt/engine.h"

namespace mpsx::driver::host::simt {
namespace {

uint32_t bits(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }
unsigned lowest(uint32_t mask) { return unsigned(__builtin_ctz(mask)); }
const char* plural(unsigned n) { return n == 1 ? "" : "s"; }

template <typename... A>
std::string format(const char* pattern, A... a) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, a...);
  return text;
}

}  // namespace

void Worker::run_as_fibers() {
  done_ = at_barrier_ = 0;
  turn_ = 0;
  for (unsigned i = 0; i < threads_; ++i) {
    lanes_[i].sp = nullptr;
    lanes_[i].state = State::ready;
    lanes_[i].parity = 0;
  }
  for (SimdGroup& g : simdgroups_) {
    g.ready = bits(g.count);
    g.waiting = g.meeting = 0;
    g.lanes.count = g.count;
  }
  simd_ = &simdgroups_[turns_[0]];
  next_lane();
  mpsx_simt_start(&main_, stacks_.top(stack_), &Worker::fiber_main);
}

// Takes the next lane that can run; there is one.
inline Worker::Lane& Worker::next_lane() {
  SimdGroup& g = *simd_;
  const unsigned place = lowest(g.ready);
  g.ready &= g.ready - 1;
  lane_ = &lanes_[g.first + g.order[place]];
  stack_ = lane_->thread.index;
  return *lane_;
}

void Worker::fiber_main() {
  Worker& w = *active();
  Lane& me = *w.lane_;
  const Job& job = *w.job_;
  job.record->thread_entry(w.args_, &job.launch, &me.thread);
  me.state = State::done;
  ++w.done_;
  w.reschedule(me);
  __builtin_unreachable();
}

// Runs others; returns when `me` goes on.
void Worker::reschedule(Lane& me) {
  for (;;) {
    if (simd_->ready) {
      Lane& next = next_lane();
      if (&next == &me) return;
      if (next.sp) return mpsx_simt_switch(&me.sp, next.sp);
      return mpsx_simt_start(&me.sp, stacks_.top(stack_), &Worker::fiber_main);
    }
    if (!resolve(*simd_) && !next_simdgroup()) finish_phase();
  }
}

void Worker::release(SimdGroup& g, uint32_t lanes) {
  if (lanes == bits(g.count)) {
    g.ready = lanes;
    for (unsigned i = 0; i < g.count; ++i) lanes_[g.first + i].state = State::ready;
    return;
  }
  for (uint32_t left = lanes; left; left &= left - 1) {
    const unsigned lane = lowest(left);
    g.ready |= 1u << g.place[lane];
    lanes_[g.first + lane].state = State::ready;
  }
}

// No lane of the SIMD group can run: lets those go on that are together in a SIMD function or simdgroup_barrier.
bool Worker::resolve(SimdGroup& g) {
  Lane* const lanes = &lanes_[g.first];
  if (g.waiting) {
    const void* first = lanes[lowest(g.waiting)].site.address;
    for (uint32_t left = g.waiting; left; left &= left - 1)
      if (const void* a = lanes[lowest(left)].site.address; a < first) first = a;
    uint32_t met = 0;
    for (uint32_t left = g.waiting; left; left &= left - 1) {
      const unsigned i = lowest(left);
      if (lanes[i].site.address != first) continue;
      met |= 1u << i;
      g.lanes.value[i] = lanes[i].slots[lanes[i].parity ^ 1];
    }
    g.lanes.active = met;
    g.lanes.memo_set = 0;
    g.waiting &= ~met;
    release(g, met);
    if (monitor_) monitor_->lanes_met(*this, g.first / MPSX_SIMD_WIDTH, met);
    return true;
  }
  if (!g.meeting) return false;
  const Lane& one = lanes[lowest(g.meeting)];
  uint32_t alive = 0;
  for (unsigned i = 0; i < g.count; ++i) {
    const Lane& lane = lanes[i];
    if (lane.state != State::done) alive |= 1u << i;
    if (lane.state == State::simd_barrier ? lane.site.address != one.site.address : lane.state == State::barrier)
      abandon(format("%s is reached by lane %u of SIMD group %u, while lane %u waits at another, %s:%d",
                     one.site.function, one.thread.lane, one.thread.simdgroup, i, lane.site.file, lane.site.line),
              one.site.file, one.site.line, one.thread);
  }
  if (alive != bits(g.count) && job_->strict) {
    const auto gone = g.count - unsigned(__builtin_popcount(alive));
    abandon(format("%s is not reached by all lanes of SIMD group %u: %u lane%s of %u returned before it",
                   one.site.function, one.thread.simdgroup, gone, plural(gone), g.count),
            one.site.file, one.site.line, one.thread);
  }
  const uint32_t met = g.meeting;
  g.meeting = 0;
  release(g, met);
  if (monitor_) monitor_->simdgroup_barrier(*this, g.first / MPSX_SIMD_WIDTH, one.site);
  return true;
}

bool Worker::next_simdgroup() {
  if (++turn_ >= turns_.size()) return false;
  simd_ = &simdgroups_[turns_[turn_]];
  return true;
}

// Every thread has returned or waits at the threadgroup barrier.
void Worker::finish_phase() {
  if (!at_barrier_) {
    if (monitor_) monitor_->end_group(*this);
    leave();
  }
  if (done_ && job_->strict) {
    const Lane* gone = lanes_.data();
    while (gone->state != State::done) ++gone;
    const unsigned* p = gone->thread.local;
    abandon(format("%s is not reached by all threads: %u of %u returned before it, such as thread (%u, %u, %u)",
                   first_->site.function, done_, threads_, p[0], p[1], p[2]),
            first_->site.file, first_->site.line, first_->thread);
  }
  if (monitor_) monitor_->threadgroup_barrier(*this, first_->site);
  for (SimdGroup& g : simdgroups_) {
    uint32_t met = 0;
    for (unsigned i = 0; i < g.count; ++i)
      if (lanes_[g.first + i].state == State::barrier) met |= 1u << i;
    release(g, met);
  }
  at_barrier_ = 0;
  turn_ = 0;
  simd_ = &simdgroups_[turns_[0]];
}

void Worker::meet(State state, const Site& site) {
  Lane& me = *lane_;
  me.site = site;
  me.state = state;
  if (state == State::simd_barrier) {
    simd_->meeting |= 1u << me.thread.lane;
  } else {
    if (!at_barrier_++) first_ = &me;
    const Lane& one = *first_;
    if (one.site.address != site.address) {
      const unsigned* p = one.thread.local;
      fault(format("%s is reached while thread (%u, %u, %u) waits at another, %s:%d", site.function, p[0], p[1], p[2],
                   one.site.file, one.site.line),
            site);
    }
  }
  reschedule(me);
}

}  // namespace mpsx::driver::host::simt
