#include "backend/cpu_allocator_guard.h"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace mpsx::backend {
namespace {

// Smaller blocks come from malloc, which does not map and unmap each of them.
constexpr size_t kMinBytes = size_t(64) << 10;

thread_local int depth = 0;

// Maps addresses to blocks. The DataPtr cannot hold the block, because oneDNN frees memory by address alone
// (c10::Allocator::raw_deallocate).
struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, runtime::Block*> by_address;
};

Blocks& blocks() {
  static auto* b = new Blocks();
  return *b;
}

// Removes the block at an address and returns it. Returns null if there is none.
runtime::Block* extract_block(void* p) {
  auto& b = blocks();
  std::lock_guard lock(b.mutex);
  const auto found = b.by_address.find(p);
  if (found == b.by_address.end()) return nullptr;
  runtime::Block* const block = found->second;
  b.by_address.erase(found);
  return block;
}

c10::DeleterFnPtr default_deleter = nullptr;

void free_block(void* p) {
  if (auto* block = extract_block(p)) return runtime::release(block);
  default_deleter(p);
}

class GuardedAllocator final : public c10::Allocator {
 public:
  explicit GuardedAllocator(c10::Allocator* fallback) : fallback_(fallback) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (depth == 0 || bytes < kMinBytes) return fallback_->allocate(bytes);
    runtime::Block* const block = runtime::allocate(bytes);
    auto& b = blocks();
    std::lock_guard lock(b.mutex);
    b.by_address.emplace(block->data, block);
    return {block->data, block->data, &free_block, c10::Device(c10::kCPU)};
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get() == data.get_context(); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* fallback_;
};

// Installs the allocator for the rest of the process, because tensors refer to their allocator. Does nothing if another
// library has installed an allocator, or if the driver does not use process memory or checks every allocation.
bool install() {
  const auto& traits = runtime::driver().traits();
  auto* current = c10::GetCPUAllocator();
  if (!traits.uses_process_memory() || traits.exact_allocations || current != c10::GetDefaultCPUAllocator())
    return false;
  default_deleter = current->raw_deleter();
  c10::SetCPUAllocator(new GuardedAllocator(current));
  return true;
}

}  // namespace

CpuAllocatorGuard::CpuAllocatorGuard() {
  [[maybe_unused]] static const bool installed = install();
  ++depth;
}
CpuAllocatorGuard::~CpuAllocatorGuard() { --depth; }

bool is_device_cache_memory(const c10::DataPtr& data) { return data.get_deleter() == &free_block; }

}  // namespace mpsx::backend
