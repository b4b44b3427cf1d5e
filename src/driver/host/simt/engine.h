// Runs the threads of threadgroups. Each thread is a fiber, and all fibers of a threadgroup run on one CPU thread.
//
// SIMD groups run one after another, and so do the lanes of each SIMD group. A seed shuffles their order. A thread runs
// until it returns or waits for other threads. A lane that calls a SIMD function waits until every lane of its SIMD
// group is waiting or has returned. The lanes that wait at the same call are then the active lanes. If lanes wait at
// different calls, the lanes at the call that comes first in the code continue. Lanes that left a branch or loop early
// thus wait for the other lanes.
//
// The engine or a Monitor may detect a fault, which ends the dispatch. The Job records the first fault, other CPU
// threads stop after their current threadgroup, the stacks of the fibers are abandoned, and the dispatching thread
// throws.
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
#include "driver/host/fault_handler.h"
#include "driver/host/simt/arena.h"
#include "driver/host/simt/fiber.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

using Site = mpsx_site;
class Worker;

// Observes the threads of a threadgroup, for example to check their memory accesses. Each CPU thread has its own
// Monitor.
class Monitor {
 public:
  virtual ~Monitor() = default;
  virtual void begin_group(Worker&) = 0;                                         // called before the first thread runs
  virtual void variable(Worker&, const Arena::Variable&) = 0;                    // a threadgroup variable was allocated
  virtual void threadgroup_barrier(Worker&, const Site&) = 0;                    // all threads have arrived
  virtual void simdgroup_barrier(Worker&, unsigned simdgroup, const Site&) = 0;  // all lanes have arrived
  // The lanes in `mask` have called a SIMD function.
  virtual void lanes_converged(Worker&, unsigned simdgroup, unsigned mask, const Site&) = 0;
  virtual void end_group(Worker&) = 0;  // all threads have returned
  // The running thread received a signal for an invalid memory access. May report a fault itself.
  virtual void memory_signal(Worker&, const void* /*address*/) {}
};

// One dispatch. `arguments` are passed to the driver, and `args` to the kernel's entry point.
struct Job {
  const mpsx_kernel_record* record = nullptr;
  const Argument* arguments = nullptr;
  size_t argument_count = 0;
  void* args[MPSX_MAX_ARGUMENTS] = {};
  mpsx_launch launch = {};
  uint64_t seed = 0;    // 0 runs lanes and SIMD groups in order
  bool strict = false;  // report undefined behavior as a fault instead of behaving like hardware
  bool interruptible = false;
  unsigned interrupts = 0;                                 // interrupt_count() before the dispatch
  std::function<std::unique_ptr<Monitor>()> make_monitor;  // null to run without a monitor

  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string message;  // description of the first fault
};

// Runs threadgroups [begin, end) of a job on the calling CPU thread. Records faults in the job.
void run_groups(Job&, uint64_t begin, uint64_t end);

// The functions that the engine provides to kernels.
extern const mpsx_simt_services kServices;

// The state of a CPU thread, which runs one job at a time.
class Worker {
 public:
  // Returns the worker that is running a threadgroup on this CPU thread, or null if there is none.
  static Worker* active() noexcept;

  const Job& job() const { return *job_; }
  const mpsx_threadgroup& group() const { return group_; }
  const mpsx_thread& thread() const { return threads_[lane_->index]; }  // the running thread
  const mpsx_thread& thread(unsigned index) const { return threads_[index]; }
  unsigned thread_index() const { return lane_->index; }
  Arena& arena() { return arena_; }
  const Stacks& stacks() const { return stacks_; }
  Monitor* monitor() { return monitor_.get(); }
  // Interrupts the kernel from a signal handler, which ends the dispatch: sets the point at which the thread resumes.
  // Returns false if the thread is not running a kernel.
  static bool interrupt(ResumePoint&) noexcept;
  // Like interrupt(), but for a fault. Returns false if the kernel did not cause the fault.
  bool divert(const Fault&, ResumePoint&) noexcept;
  // Returns the worker of the caller, which must run on the stack of one of the worker's kernel threads. This is
  // cheaper than active().
  static Worker* here() noexcept { return static_cast<Worker*>(Stacks::owner()); }
  // Returns whether `p` is on the running thread's stack.
  bool on_own_stack(const void* p) const { return stacks_.holds(fibers_ ? lane_->index : 0, p); }
  // Returns whether `p` points to memory that the engine shares with kernels, except for this object and its Job.
  bool is_shared(const void* p) const;

  // Returns the site to report for a fault in code without line information. May be null. The site is on the running
  // thread's stack.
  const Site* fault_site() const { return fault_site_; }

  // Ends the dispatch with a fault in the running thread. Only a kernel may call this.
  [[noreturn]] void fault(std::string what, const char* file, int line);
  [[noreturn]] void fault(std::string what, const Site& site) { fault(std::move(what), site.file, site.line); }
  // Ends the dispatch with a fault in a different thread of the threadgroup.
  [[noreturn]] void fault_of(unsigned thread, std::string&& what, const char* file, int line);

  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  friend void run_groups(Job&, uint64_t, uint64_t);
  friend struct Services;

  // A Lane occupies exactly one cache line, because every fiber switch accesses it.
  struct alignas(64) Lane {
    void* sp;             // null until the thread starts
    const void* address;  // address of the call at which the lane waits
    const Site* site;     // site of that call, stored on the lane's stack
    uint32_t index;       // which slot to write next; other lanes may still be reading the other one
    uint8_t parity;       // the slot to write next; other lanes may still be reading the other slot
    bool is_long;         // whether the last value was too large for a slot
    alignas(16) unsigned char slots[2][16];
  };
  static_assert(sizeof(Lane) == 64);
  struct LongSlots {  // for values too large for a Lane's slots
    alignas(16) unsigned char slots[2][MPSX_MAX_EXCHANGE_BYTES];
  };
  struct SimdGroup {
    unsigned first, count;                            // lanes_[first, first + count) are the lanes of this SIMD group
    uint32_t ready;                                   // mask of positions in `order` whose lanes can run
    uint32_t in_simd_function, at_simdgroup_barrier;  // masks of waiting lanes
    uint32_t at_barrier, done;  // masks of lanes at a threadgroup_barrier and of lanes that have returned
    std::array<uint8_t, 32> order, position;  // the lane at each position, and the position of each lane
    mpsx_lanes lanes;
  };

  void prepare(Job&);
  void set_shape();
  void shuffle(uint64_t group);
  void run_group(uint64_t index);
  void run_as_fibers();
  void run_as_loop();
  static void fault_main();
  static void fiber_main();
  static void loop_main();
  Lane& next_lane();
  void reschedule(Lane& me);
  void reschedule_slow(Lane& me);
  [[noreturn]] void leave();
  bool resume_lanes(SimdGroup&);
  uint32_t collect_converged(SimdGroup&);
  bool next_simdgroup();
  void finish_threadgroup_barrier();
  void release(SimdGroup&, uint32_t lanes);
  void report(std::string&& what, const char* file, int line, const mpsx_thread&);
  [[noreturn]] void abandon(std::string&& what, const char* file, int line, const mpsx_thread&);
  void wait_at_threadgroup_barrier(const Site&);
  void wait_at_simdgroup_barrier(const Site&);

  Job* job_ = nullptr;
  std::unique_ptr<Monitor> monitor_;
  Arena arena_;
  Stacks stacks_;
  SignalStack signal_stack_;
  bool in_kernel_ = false;  // whether a kernel is running
  bool fibers_ = false;     // whether the kernel's threads wait for each other
  Fault fault_;             // the fault that ended the thread; signal 0 means an interrupt
  mpsx_threadgroup group_ = {};
  void* args_[MPSX_MAX_ARGUMENTS] = {};
  std::vector<Lane> lanes_;
  std::vector<LongSlots> long_slots_;
  std::vector<mpsx_thread> threads_;
  std::vector<SimdGroup> simdgroups_;
  std::vector<unsigned> turns_;         // SIMD groups in execution order
  std::vector<const void*> collected_;  // values that threads pass to a collective operation
  std::array<unsigned, 3> shape_{};
  void* main_ = nullptr;  // stack pointer of the CPU thread
  Lane* lane_ = nullptr;  // the running lane
  SimdGroup* simd_ = nullptr;
  const Site* fault_site_ = nullptr;
  size_t turn_ = 0;
  unsigned count_ = 0, done_ = 0, at_barrier_ = 0;  // numbers of threads: in total, returned, at the barrier
  Lane* first_ = nullptr;                           // the first lane to reach the barrier
};

// Returns the next lane that can run. At least one lane must be able to run.
inline Worker::Lane& Worker::next_lane() {
  SimdGroup& g = *simd_;
  const auto position = unsigned(__builtin_ctz(g.ready));
  g.ready &= g.ready - 1;
  lane_ = &lanes_[g.first + g.order[position]];
  return *lane_;
}

// Runs other lanes until `me` can continue.
inline void Worker::reschedule(Lane& me) {
  if (simd_->ready) {
    Lane& next = next_lane();
    if (next.sp) return mpsx_simt_switch(&me.sp, next.sp);
    return mpsx_simt_start(&me.sp, stacks_.top(next.index), &Worker::fiber_main);
  }
  reschedule_slow(me);
}

}  // namespace mpsx::driver::host::simt
