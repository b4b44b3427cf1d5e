// Runs the threads of threadgroups: each a fiber, all fibers of a group on one CPU thread.
//
// SIMD groups run one after the other, and so do the lanes of one, in an order that a seed shuffles; a thread runs
// until it waits for others or returns. A lane in a SIMD function waits until every lane of its SIMD group waits or
// has returned; then those that came to the same call are the active lanes, and of several calls the first in the code
// goes on, which is where lanes that left a branch or a loop early wait for the others.
//
// A fault (of the engine or of a Monitor) ends its dispatch: the first is kept in the Job, other CPU threads stop
// after their threadgroup, stacks are dropped, and whoever dispatched throws.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "metal_stdlib/kernel_abi.h"
#include "driver/host/fault_trap.h"
#include "driver/host/simt/arena.h"
#include "driver/host/simt/fiber.h"

namespace mpsx::driver::host::simt {

using Site = mpsx_site;
class Worker;

// Watches what the threads of a threadgroup do, such as a checker of their memory accesses. One for each CPU thread.
class Monitor {
 public:
  virtual ~Monitor() = default;
  virtual void begin_group(Worker&) = 0;                                   // before its first thread runs
  virtual void variable(Worker&, const Arena::Variable&) = 0;              // a threadgroup variable got its memory
  virtual void threadgroup_barrier(Worker&, const Site&) = 0;              // all threads of the group have met
  virtual void simdgroup_barrier(Worker&, unsigned simdgroup, const Site&) = 0;  // all lanes of it have met
  virtual void lanes_met(Worker&, unsigned simdgroup, unsigned mask, const Site&) = 0;  // in a SIMD function
  virtual void end_group(Worker&) = 0;                                     // all threads have returned
};

// One dispatch. `arguments` are as the driver got them, `args` what kernels see.
struct Job {
  const mpsx_kernel_record* record = nullptr;
  const Argument* arguments = nullptr;
  size_t argument_count = 0;
  void* args[MPSX_MAX_ARGUMENTS] = {};
  mpsx_launch launch = {};
  uint64_t seed = 0;    // 0: lanes and SIMD groups run in order
  bool strict = false;  // undefined behaviour is a fault; else it gives what hardware would
  bool interruptible = false;
  unsigned interrupts = 0;  // before it
  std::function<std::unique_ptr<Monitor>()> make_monitor;  // null: none

  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string message;  // of the first fault
};

// Runs threadgroups [begin, end) of a job on the calling CPU thread. Faults are left in the job.
void run_groups(Job&, uint64_t begin, uint64_t end);

// The services that kernels call.
extern const mpsx_simt_services kServices;

// The state of one CPU thread. Made once, used by one job at a time.
class Worker {
 public:
  // The one that runs a threadgroup on this CPU thread right now, or null.
  static Worker* active() noexcept;

  const Job& job() const { return *job_; }
  const mpsx_threadgroup& group() const { return group_; }
  const mpsx_thread& thread() const { return threads_[lane_->index]; }  // that runs now
  const mpsx_thread& thread(unsigned index) const { return threads_[index]; }
  unsigned thread_index() const { return lane_->index; }
  Arena& arena() { return arena_; }
  const Stacks& stacks() const { return stacks_; }
  Monitor* monitor() { return monitor_.get(); }
  // For a handler in a thread that runs a kernel here: where it goes on instead, which ends the dispatch.
  static bool interrupt(Landing&) noexcept;
  // The same after a fault. False: it is not the kernel's.
  bool divert(const Fault&, Landing&) noexcept;
  // The one that runs the caller, which must be on the stack of one of its threads: cheaper than active().
  static Worker* here() noexcept { return static_cast<Worker*>(Stacks::owner()); }
  // Whether `p` is on the stack of the thread that runs now.
  bool on_own_stack(const void* p) const { return stacks_.holds(fibers_ ? lane_->index : 0, p); }
  // Whether `p` is memory through which the engine talks to kernels, apart from this object and its Job.
  bool is_shared(const void* p) const;

  // Ends the dispatch: `what` went wrong in the thread that runs now. Only from within a kernel.
  [[noreturn]] void fault(std::string what, const char* file, int line);
  [[noreturn]] void fault(std::string what, const Site& site) { fault(std::move(what), site.file, site.line); }
  // The same for another thread of the threadgroup.
  [[noreturn]] void fault_of(unsigned thread, std::string&& what, const char* file, int line);

  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  friend void run_groups(Job&, uint64_t, uint64_t);
  friend struct Services;

  // Touched at every switch, so in one cache line.
  struct alignas(64) Lane {
    void* sp;             // null: not started
    const void* address;  // of the call in which it waits
    const Site* site;     // more of that, on its stack
    uint32_t index;       // of the thread
    uint8_t parity;       // which of its slots it fills next: the others may still read the last
    bool is_long;         // the last value was too long for a slot here
    alignas(16) unsigned char slots[2][16];
  };
  static_assert(sizeof(Lane) == 64);
  struct LongSlots {  // of values that do not fit those
    alignas(16) unsigned char slots[2][MPSX_MAX_EXCHANGE_BYTES];
  };
  struct SimdGroup {
    unsigned first, count;             // its lanes
    uint32_t ready;                    // places in `order` of lanes that can run
    uint32_t waiting, meeting;         // lanes in a SIMD function, in a simdgroup_barrier
    uint32_t at_barrier, done;         // lanes in a threadgroup_barrier, and those that have returned
    std::array<uint8_t, 32> order, place;  // lane of a place, place of a lane
    mpsx_lanes lanes;
  };

  void prepare(Job&);
  void set_shape();
  void shuffle(uint64_t group);
  void run_group(uint64_t index);
  void run_as_fibers();
  void run_as_loop();
  static void landing_main();
  static void fiber_main();
  static void loop_main();
  Lane& next_lane();
  void reschedule(Lane& me);
  void reschedule_slowly(Lane& me);
  [[noreturn]] void leave();
  bool resolve(SimdGroup&);
  uint32_t meet_in_call(SimdGroup&);
  bool next_simdgroup();
  void finish_phase();
  void release(SimdGroup&, uint32_t lanes);
  void report(std::string&& what, const char* file, int line, const mpsx_thread&);
  [[noreturn]] void abandon(std::string&& what, const char* file, int line, const mpsx_thread&);
  void meet(const Site&);
  void meet_simdgroup(const Site&);

  Job* job_ = nullptr;
  std::unique_ptr<Monitor> monitor_;
  Arena arena_;
  Stacks stacks_;
  SignalStack signal_stack_;
  bool in_kernel_ = false, fibers_ = false;  // in a kernel; whose threads wait for each other
  Fault fault_;  // that ended the thread; no signal: it was interrupted
  mpsx_threadgroup group_ = {};
  void* args_[MPSX_MAX_ARGUMENTS] = {};
  std::vector<Lane> lanes_;
  std::vector<LongSlots> long_slots_;
  std::vector<mpsx_thread> threads_;
  std::vector<SimdGroup> simdgroups_;
  std::vector<unsigned> turns_;  // SIMD groups in the order in which they run
  std::array<unsigned, 3> shape_{};
  void* main_ = nullptr;  // the stack of the CPU thread itself
  Lane* lane_ = nullptr;  // that runs
  SimdGroup* simd_ = nullptr;
  size_t turn_ = 0;
  unsigned count_ = 0, done_ = 0, at_barrier_ = 0;  // threads: all, that have returned, that wait
  Lane* first_ = nullptr;  // that came to the barrier
};

// Takes the next lane that can run; there is one.
inline Worker::Lane& Worker::next_lane() {
  SimdGroup& g = *simd_;
  const auto place = unsigned(__builtin_ctz(g.ready));
  g.ready &= g.ready - 1;
  lane_ = &lanes_[g.first + g.order[place]];
  return *lane_;
}

// Runs others; returns when `me` goes on.
inline void Worker::reschedule(Lane& me) {
  if (simd_->ready) {
    Lane& next = next_lane();
    if (next.sp) return mpsx_simt_switch(&me.sp, next.sp);
    return mpsx_simt_start(&me.sp, stacks_.top(next.index), &Worker::fiber_main);
  }
  reschedule_slowly(me);
}

}  // namespace mpsx::driver::host::simt
