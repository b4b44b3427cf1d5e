// Detects invalid memory accesses in kernels: out-of-bounds accesses to buffers and threadgroup memory, writes to
// buffers that the launcher declared as read-only, misaligned accesses, reads of uninitialized threadgroup memory, and
// races in threadgroup memory (shadow.h) and in the buffers that a dispatch may write (device_shadow.h).
//
// Kernels compiled with checks report every access before performing it (metal_stdlib/simt_checks.h). A kernel may
// access:
// - the parts of its buffers that the launcher declared. By default, this is the entire allocation that contains the
//   buffer, because an argument may be a view
// - its bytes arguments
// - buffers that pointers stored in its arguments point to
// - its threadgroup memory and its thread's stack
// - its library's constants
// - the engine's objects
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "driver/host/simt/allocations.h"
#include "driver/host/simt/device_shadow.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/line_table.h"
#include "driver/host/simt/shadow.h"

namespace mpsx::driver::host::simt {

class MemoryCheck final : public Monitor {
 public:
  MemoryCheck();
  // Returns the instance for the calling kernel thread, or null if accesses are not checked. The caller must be on a
  // kernel thread's stack.
  static MemoryCheck* here() noexcept { return static_cast<MemoryCheck*>(Worker::here()->monitor()); }
  void begin_group(Worker&) override;
  void end_group(Worker&) override;
  void variable(Worker&, const Arena::Variable&) override { arena_size_ = arena_size(); }
  void threadgroup_barrier(Worker&, const Site&) override;
  void simdgroup_barrier(Worker&, unsigned simdgroup, const Site&) override;
  void lanes_converged(Worker&, unsigned, unsigned, const Site&) override {}
  void memory_signal(Worker&, const void* address) override;

  template <Access access>
  void check(const void* p, size_t bytes, const void* code) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    // An address just above this frame is on the kernel's own stack or in the unmapped page above it.
    if (at - reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < kNear) return;
    if (suspect_) check_suspect();
    if (const Region& r = last_region_[size_t(access)]; r.holds(at, bytes)) {
      if (r.shadow) check_device(access, false, r, p, bytes, code);
      return;
    }
    check_recent<access>(p, bytes, code);
  }
  void check_atomic(const void* p, size_t bytes, bool loads, bool stores, const void* code);
  void check_misaligned(Access, const void* p, size_t bytes, const void* code);
  // Exempts the buffer that contains `p` from the checks for races (MPSX_ALLOW_RACES).
  void allow_races(const void* p);
  void device_fence() { order_.device_fence(); }

 private:
  static constexpr uintptr_t kNear = 4096;
  // If this many consecutive atomic accesses of a thread have the same result, it must be waiting for a different
  // thread.
  static constexpr uint32_t kMaxSpins = uint32_t(1) << 22;
  enum class Kind : uint8_t { buffer, bytes, indirect, engine, library };
  struct Region {
    uintptr_t begin = 0;
    size_t size = 0;
    Kind kind = Kind::buffer;
    uint8_t index = 0;  // index of the buffer
    bool writable = true;
    DeviceShadow* shadow = nullptr;  // null if no races can occur
    bool holds(uintptr_t at, size_t bytes) const { return at - begin < size && size - (at - begin) >= bytes; }
  };
  // A racing write that may be harmless. It is a fault only if it changes the memory, so it is checked after the write.
  struct Suspect {
    static constexpr size_t kBytes = 64;
    const char* p;
    size_t bytes;
    unsigned thread;
    const void* code;
    Shadow::Finding finding;
    DeviceShadow::Finding device;  // instead of `finding`, for a write to `region`
    Region region;
    SourceLine site;
    char before[kBytes];
  };

  void find_memory();
  void add(const void* begin, size_t size, Kind, uint8_t index = 0, bool writable = true);
  DeviceShadow* shadow_at(uintptr_t at);
  template <Access access>
  void check_recent(const void* p, size_t bytes, const void* code);
  void check_slow(Access, bool atomic, const void* p, size_t bytes, const void* code);
  void check_device(Access, bool atomic, const Region&, const void* p, size_t bytes, const void* code);
  const Region* find_region(Access, uintptr_t at, size_t bytes);
  bool in_indirect(uintptr_t at, size_t bytes);
  bool in_thread_local(uintptr_t at, size_t bytes);
  bool in_threadgroup_memory(uintptr_t at) const { return at - arena_begin_ < arena_size_; }
  size_t arena_size() const { return worker_->arena().used() + Arena::kGap; }
  const Arena::Variable* variable_at(size_t offset, size_t bytes);
  void suspect_write(const Suspect&);
  void check_suspect();
  [[noreturn]] void fail_suspect();
  void count_spins(const void* p, size_t bytes, unsigned thread, const void* code);

  // Return descriptions of faults. They are separate from fail(), because fail() never returns and thus never destroys
  // its local objects.
  std::string out_of_bounds(const char* verb, const void* p, size_t bytes) const;
  std::string out_of_variable(const char* verb, size_t offset, size_t bytes) const;
  std::string misaligned(const char* verb, const void* p, size_t bytes) const;
  std::string wrong(const char* verb, const Shadow::Finding&, size_t bytes, unsigned thread) const;
  std::string device_race(const char* verb, const DeviceShadow::Finding&, const Region&, size_t bytes) const;
  [[noreturn]] void fail(std::string&& what, const void* code, unsigned thread) {
    fail(std::move(what), code, thread, site());
  }
  // `site` is the source line to report if there is no line information for `code`.
  [[noreturn]] void fail(std::string&& what, const void* code, unsigned thread, const SourceLine& site);
  SourceLine site() const {
    const Site* s = worker_->fault_site();
    return s ? SourceLine{s->file, s->line} : SourceLine{};
  }
  // Encodes a code address in 32 bits: its offset in the library plus one.
  uint32_t short_code(const void* code) const { return uint32_t(static_cast<const char*>(code) - library_.begin) + 1; }
  const Arena::Variable* nearest_variable(size_t offset) const;

  Region last_region_[2], previous_region_[2];  // indexed by Access
  std::deque<DeviceShadow> shadows_;
  DeviceOrder order_;
  // The last atomic access, and how many times in a row it was repeated with the same result.
  struct Spin {
    const void* p = nullptr;
    uint64_t value = 0;
    unsigned thread = 0;
    uint32_t times = 0;
  } spin_;
  // The last access of 16 bytes at an odd multiple of 8 bytes. If its type has an alignment of 16, the CPU raises a
  // signal.
  struct HalfAligned {
    Access access = Access::read;
    const void* p = nullptr;
    const void* code = nullptr;
    unsigned thread = 0;
  } half_aligned_;
  bool suspect_ = false;
  bool unknown_ = false;  // whether a buffer has unknown bounds; bounds are then not checked
  Worker* worker_ = nullptr;
  uintptr_t arena_begin_ = 0;
  size_t arena_size_ = 0;
  uintptr_t last_begin_ = 0;  // the variable accessed last
  size_t last_size_ = 0;
  Shadow* shadow_;
  std::vector<Region> regions_;
  Suspect write_ = {};
  Image library_;
};

std::unique_ptr<Monitor> make_memory_check();

// Kernels call these functions (mpsx_simt_services).
void check_read(const void* p, unsigned long bytes, const void* code);
void check_write(const void* p, unsigned long bytes, const void* code);
void check_atomic(const void* p, unsigned long bytes, unsigned access, const void* code);
void check_misaligned(const void* p, unsigned long bytes, unsigned writes, const void* code);
void array_index(const char* type, long long index, const char* file, int line, const void* code);

}  // namespace mpsx::driver::host::simt
