// Launching a kernel:
//
//   static const KernelSet softmax("softmax");
//   Launch(softmax.get(tag)).pointer(out).pointer(in).bytes(params).groups({rows}, threads).work(n).run();
//
// Arguments take buffer indices 0, 1, 2 … in the order in which they are added.
#pragma once

#include <array>
#include <atomic>

#include "runtime/device.h"
#include "runtime/kernel_library.h"

namespace mpsx::runtime {

class Launch {
 public:
  explicit Launch(KernelEntry& entry) : entry_(entry) {}

  // Memory of the device (or of the process, where the driver adopts it), at any offset in it.
  // Null is allowed for an argument the kernel does not read (an absent bias).
  Launch& pointer(const void* p);
  // A value copied at launch, at most 4096 bytes: `constant Params&`, `constant uint&`, an inline scalar.
  // It must live until run() returns.
  template <typename T>
  Launch& bytes(const T& value) {
    static_assert(!std::is_pointer_v<T> && std::is_trivially_copyable_v<T> && sizeof(T) <= 4096);
    return add({driver::Argument::Kind::bytes, &value, sizeof(T)});
  }
  Launch& bytes(const void* data, size_t size) { return add({driver::Argument::Kind::bytes, data, size}); }
  Launch& threadgroup_memory(size_t bytes);

  // A grid in threads (no tail), threadgroup shape chosen here.
  Launch& threads(uint64_t x, uint64_t y = 1, uint64_t z = 1);
  // The grid of a kernel that loops over rows of `n` elements (metal/lib/pack.h), in packs of which the largest type's
  // elements have `element_size` bytes, or one by one where that is 0. `y` and `z` are in threads.
  Launch& over(uint64_t n, size_t element_size, uint64_t y = 1, uint64_t z = 1);
  // A grid in threads with the threadgroup's shape given; a grid that is no multiple of it has smaller threadgroups at
  // its end.
  Launch& threads_in_groups(driver::Size threads, driver::Size group);
  // A grid in threadgroups. `per_group` is a hint, clamped to what the kernel and driver allow (1 on `host`): kernels
  // are correct at any size. `exact` requires it (register-tiled kernels only).
  Launch& groups(driver::Size grid, uint32_t per_group = 256, bool exact = false);
  // About how many elements one thread (or one group) touches, for splitting between CPU cores. Default 1.
  Launch& work(uint64_t elements) {
    dispatch_.work = elements;
    return *this;
  }

  void run();

 private:
  Launch& add(driver::Argument a);
  KernelEntry& entry_;
  std::array<driver::Argument, 34> arguments_;
  std::array<std::atomic<uint64_t>*, 34> last_uses_;  // of the blocks among them
  size_t count_ = 0, uses_ = 0;
  driver::Dispatch dispatch_;
};

// Whether packs of 16 bytes (metal/lib/pack.h) begin at these addresses and steps in bytes, all of them or-ed.
constexpr bool in_packs(uint64_t bits) { return bits % 16 == 0; }
inline uint64_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// The threadgroup size for rows of `n` elements: a multiple of the SIMD width, at most 1024.
uint32_t threads_for_row(uint64_t n);

// How many threads keep the device busy: one a core on a CPU, about a thousand a core on a GPU.
int64_t threads_to_fill();

}  // namespace mpsx::runtime
