#include "runtime/launch_plan.h"

#include <sys/mman.h>

#include "runtime/allocator.h"

namespace mpsx::runtime {

Block* reserve_addresses(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK_WITH(OutOfMemoryError, data != MAP_FAILED, "mpsx: cannot reserve ", bytes, " bytes of address space");
  auto* block = new Block;
  block->data = data;
  block->size = bytes;
  block->owner = std::shared_ptr<void>(data, [bytes](void* p) { munmap(p, bytes); });
  return block;
}

}  // namespace mpsx::runtime
