#include "blocks.h"

#include <cstdlib>
#include <cstring>

#include "validation.h"

namespace {

// Flags from clang's "Block Implementation Specification".
constexpr int kHasCopyAndDispose = 1 << 25, kIsGlobal = 1 << 28;
struct Descriptor {
  unsigned long reserved, size;
  void (*copy)(void* to, const void* from);
  void (*dispose)(const void*);
};
struct Block {
  void* isa;
  int flags, reserved;
  void (*invoke)(void*, ...);
  const Descriptor* descriptor;
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void* _NSConcreteStackBlock[32];
void* _NSConcreteGlobalBlock[32];
void _Block_object_assign(void*, const void*, int) { emulation::invalid("a block captures an object"); }
void _Block_object_dispose(const void*, int) {}
}
#pragma GCC visibility pop

namespace emulation {

void* copy_block(const void* block) {
  const auto* from = static_cast<const Block*>(block);
  if (from->flags & kIsGlobal) return const_cast<void*>(block);
  auto* to = static_cast<Block*>(std::malloc(from->descriptor->size));
  std::memcpy(static_cast<void*>(to), block, from->descriptor->size);
  if (from->flags & kHasCopyAndDispose) from->descriptor->copy(to, from);
  return to;
}

void release_block(void* block) {
  auto* own = static_cast<Block*>(block);
  if (own->flags & kIsGlobal) return;
  if (own->flags & kHasCopyAndDispose) own->descriptor->dispose(own);
  std::free(own);
}

}  // namespace emulation
