// Launches a kernel:
//
//   static const KernelSet softmax("softmax");
//   Launch(softmax.get(tag)).outputs(out).inputs(in).bytes(params).groups({rows}, threads).work(n).run();
//
// The arguments have buffer indices 0, 1, 2 … in the order of the calls that add them.
#pragma once

#include <array>
#include <atomic>

#include "runtime/device.h"
#include "runtime/kernel_library.h"
#include "runtime/launch_plan.h"

namespace mpsx::runtime {

class Launch {
 public:
  explicit Launch(KernelEntry& entry) : entry_(entry) {}

  // Adds device memory at any offset, or any process memory if the driver uses it. Null is allowed for an argument that
  // the kernel does not read, such as an absent bias. Declares that the kernel accesses at most the block that contains
  // `p`, and that it writes there only if `p` does not point to const. Drivers rely on this to overlap kernels.
  Launch& pointer(const void* p) { return pointer(p, driver::Access::read); }
  Launch& pointer(void* p) { return pointer(p, driver::Access::write); }
  Launch& pointer(std::nullptr_t) { return pointer(nullptr, driver::Access::read); }
  Launch& pointer(const void* p, driver::Access);
  // Add the memory of tensors that the kernel writes (outputs) or only reads (inputs). An undefined tensor is passed as
  // a null pointer.
  template <typename... Tensors>
  Launch& outputs(const Tensors&... tensors) {
    (pointer(tensors.defined() ? tensors.mutable_data_ptr() : static_cast<void*>(nullptr)), ...);
    return *this;
  }
  template <typename... Tensors>
  Launch& inputs(const Tensors&... tensors) {
    (pointer(tensors.defined() ? tensors.const_data_ptr() : static_cast<const void*>(nullptr)), ...);
    return *this;
  }
  // Adds a value of at most 4096 bytes for a kernel parameter such as `constant Params&` or `constant uint&`. The value
  // must live until run() returns.
  template <typename T>
  Launch& bytes(const T& value) {
    static_assert(!std::is_pointer_v<T> && std::is_trivially_copyable_v<T> && sizeof(T) <= 4096);
    return add({driver::Argument::Kind::bytes, &value, sizeof(T)});
  }
  Launch& bytes(const void* data, size_t size) { return add({driver::Argument::Kind::bytes, data, size}); }
  Launch& threadgroup_memory(size_t bytes);

  // Sets the grid size in threads and chooses the threadgroup shape.
  Launch& threads(uint64_t x, uint64_t y = 1, uint64_t z = 1);
  // Sets the grid for a kernel that loops over rows of `n` elements (metal/lib/vec_loop.h). If the kernel loads 16-byte
  // vectors, `element_size` is the size of its largest element type. If it processes single elements, `element_size` is
  // 0. `y` and `z` are in threads.
  Launch& over(uint64_t n, size_t element_size, uint64_t y = 1, uint64_t z = 1);
  // Sets the grid size in threads and the threadgroup shape. If the grid is not a multiple of this shape, the last
  // threadgroups are smaller.
  Launch& threads_in_groups(driver::Size threads, driver::Size group);
  // Sets the grid size in threadgroups. `per_group` is only a hint, because kernels are correct with any threadgroup
  // size. It is clamped to what the kernel and the driver allow (1 on `host`). `exact` makes it a requirement, which
  // only register-tiled kernels need.
  Launch& groups(driver::Size grid, uint32_t per_group = 256, bool exact = false);
  // Sets the approximate number of elements per thread, or per threadgroup if the grid size is in threadgroups. The
  // driver uses it to split work between CPU cores. The default is 1.
  Launch& work(uint64_t elements) {
    dispatch_.work = elements;
    return *this;
  }

  void run();

 private:
  Launch& add(driver::Argument a);
  KernelEntry& entry_;
  const bool is_planned_ = active_plan != nullptr;
  std::array<driver::Argument, 34> arguments_;
  std::array<std::atomic<uint64_t>*, 34> last_use_seqs_;  // one for each block that the launch uses
  size_t count_ = 0, uses_ = 0;
  driver::Dispatch dispatch_;
};

// Returns whether 16-byte vector accesses (metal/lib/vec.h) are aligned. `bits` is the bitwise OR of all addresses and
// byte strides.
constexpr bool is_vector_aligned(uint64_t bits) { return bits % 16 == 0; }
inline uint64_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

// Returns how many elements each thread of a kernel processes, if its overlay for CPUs processes `cpu` of them.
uint32_t elements_per_thread(uint32_t gpu, uint32_t cpu);

// Returns the threadgroup size for rows of `n` elements: a multiple of the SIMD width, at most 1024.
uint32_t threads_for_row(uint64_t n);

// Returns how many threads keep the device busy: one per CPU core, or 1024 per GPU core.
int64_t target_resident_threads();

}  // namespace mpsx::runtime
