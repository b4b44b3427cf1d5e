#include "backend/library_memory.h"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace mpsx::backend {
namespace {

// Smaller blocks are left to malloc, which neither maps nor unmaps them one by one.
constexpr size_t kLeast = size_t(64) << 10;

thread_local int depth = 0;

// Blocks by address. oneDNN frees by address alone (c10::Allocator::raw_deallocate), so a DataPtr carries no block.
struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, runtime::Block*> at;
};

Blocks& blocks() {
  static auto* b = new Blocks();
  return *b;
}

runtime::Block* forget(void* p) {
  auto& b = blocks();
  std::lock_guard lock(b.mutex);
  const auto found = b.at.find(p);
  if (found == b.at.end()) return nullptr;
  runtime::Block* const block = found->second;
  b.at.erase(found);
  return block;
}

c10::DeleterFnPtr plain_deleter = nullptr;

void free_block(void* p) {
  if (auto* block = forget(p)) return runtime::release(block);
  plain_deleter(p);
}

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator* plain) : plain_(plain) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (depth == 0 || bytes < kLeast) return plain_->allocate(bytes);
    runtime::Block* const block = runtime::allocate(bytes);
    auto& b = blocks();
    std::lock_guard lock(b.mutex);
    b.at.emplace(block->data, block);
    return {block->data, block->data, &free_block, c10::Device(c10::kCPU)};
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get() == data.get_context(); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* plain_;
};

// Stays installed for the life of the process, as tensors refer to their allocator. Does nothing if somebody else
// installed an allocator, if the device has memory of its own, or if it checks each allocation.
bool install() {
  const auto& traits = runtime::driver().traits();
  auto* plain = c10::GetCPUAllocator();
  if (!traits.adopts_memory() || traits.exact_allocations || plain != c10::GetDefaultCPUAllocator()) return false;
  plain_deleter = plain->raw_deleter();
  c10::SetCPUAllocator(new Allocator(plain));
  return true;
}

}  // namespace

LibraryMemory::LibraryMemory() {
  [[maybe_unused]] static const bool installed = install();
  ++depth;
}
LibraryMemory::~LibraryMemory() { --depth; }

bool is_library_memory(const c10::DataPtr& data) { return data.get_deleter() == &free_block; }

}  // namespace mpsx::backend
