// Finds accesses to memory that a kernel has no business with: out of the bounds of its buffers and threadgroup memory,
// before anybody wrote (threadgroup memory), or at the same time as another thread (threadgroup memory alone: races in
// device memory are not found).
//
// Kernels compiled for this tell of every access before it happens (metal_stdlib/simt_checks.h). Memory of a kernel is:
// its buffers, each as large as its whole allocation, since a view may reach back; its bytes arguments; buffers that
// pointers in these point to; its threadgroup memory; its thread's stack; constants of its library; and what the engine
// hands to it.
#pragma once

#include <memory>
#include <vector>

#include "driver/host/simt/allocations.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/line_table.h"
#include "driver/host/simt/shadow.h"

namespace mpsx::driver::host::simt {

class MemoryCheck final : public Monitor {
 public:
  enum class Access : uint8_t { read, write };

  MemoryCheck();
  // That of the caller, who must be on the stack of a kernel's thread; null: nothing is checked.
  static MemoryCheck* here() noexcept { return static_cast<MemoryCheck*>(Worker::here()->monitor()); }
  void begin_group(Worker&) override;
  void end_group(Worker&) override;
  void variable(Worker&, const Arena::Variable&) override { arena_size_ = arena_size(); }
  void threadgroup_barrier(Worker&, const Site&) override;
  void simdgroup_barrier(Worker&, unsigned simdgroup, const Site&) override;
  void lanes_met(Worker&, unsigned, unsigned, const Site&) override {}

  template <Access access>
  void check(const void* p, size_t bytes, const void* code) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    // A little above this frame: the kernel's own stack, or the unmapped page above that.
    if (at - reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < kNear) return;
    if (suspect_) settle();
    const Region& r = hot_[size_t(access)];
    if (at - r.begin < r.size && r.size - (at - r.begin) >= bytes) return;
    check_further<access>(p, bytes, code);
  }
  void check_atomic(const void* p, size_t bytes, bool loads, bool stores, const void* code);

 private:
  static constexpr uintptr_t kNear = 4096;
  // Times that a thread finds the same at one place, one after the other, until it must be waiting for another thread.
  static constexpr uint32_t kMostLooks = uint32_t(1) << 22;
  enum class Kind : uint8_t { buffer, bytes, pointed, engine, library };
  struct Region {
    uintptr_t begin = 0;
    size_t size = 0;
    Kind kind = Kind::buffer;
    uint8_t index = 0;  // among the buffers
  };
  // A write to what others touch too, which is no fault if it changes nothing. Judged after it happened.
  struct Suspect {
    static constexpr size_t kBytes = 64;
    const char* p;
    size_t bytes;
    unsigned thread;
    const void* code;
    Shadow::Finding finding;
    char before[kBytes];
  };

  void find_memory();
  void add(const void* begin, size_t size, Kind, uint8_t index = 0);
  template <Access access>
  void check_further(const void* p, size_t bytes, const void* code);
  void check_slowly(Access, const void* p, size_t bytes, const void* code);
  bool in_memory(Access, uintptr_t at, size_t bytes);
  bool in_pointed(uintptr_t at, size_t bytes);
  bool in_thread_local(uintptr_t at, size_t bytes);
  bool in_threadgroup_memory(uintptr_t at) const { return at - arena_begin_ < arena_size_; }
  size_t arena_size() const { return worker_->arena().used() + Arena::kGap; }
  const Arena::Variable* variable_at(size_t offset, size_t bytes);
  void settle();
  void count_look(const void* p, size_t bytes, unsigned thread, const void* code);

  // Describes a fault. Apart from fail(), which destroys nothing on its stack.
  std::string out_of_bounds(const char* verb, const void* p, size_t bytes) const;
  std::string out_of_variable(const char* verb, size_t offset, size_t bytes) const;
  std::string wrong(const char* verb, const Shadow::Finding&, size_t bytes, unsigned thread) const;
  [[noreturn]] void fail(std::string&& what, const void* code, unsigned thread);
  // Findings tell where another access was; what is kept of that is its distance from the library's start, plus one.
  uint32_t short_code(const void* code) const { return uint32_t(static_cast<const char*>(code) - library_.begin) + 1; }
  const Arena::Variable* nearest_variable(size_t offset) const;

  Region hot_[2], warm_[2];  // that the last read and the last write went to, and the one before
  // The last atomic access, and how many before it found the same.
  struct Look {
    const void* p = nullptr;
    uint64_t value = 0;
    unsigned thread = 0;
    uint32_t times = 0;
  } look_;
  bool suspect_ = false;
  bool unknown_ = false;  // a buffer's extent is not known, so that any address may be its
  Worker* worker_ = nullptr;
  uintptr_t arena_begin_ = 0;
  size_t arena_size_ = 0;
  uintptr_t last_begin_ = 0;  // the variable that was last accessed
  size_t last_size_ = 0;
  Shadow* shadow_;
  std::vector<Region> regions_;
  Suspect write_ = {};
  Image library_;
};

std::unique_ptr<Monitor> make_memory_check();

// Called by kernels (mpsx_simt_services).
void check_read(const void* p, unsigned long bytes, const void* code);
void check_write(const void* p, unsigned long bytes, const void* code);
void check_atomic(const void* p, unsigned long bytes, unsigned access, const void* code);
void array_index(const char* type, long long index, const char* file, int line, const void* code);

}  // namespace mpsx::driver::host::simt
