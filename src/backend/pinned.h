// Pinned host memory. With unified memory no page needs pinning, so this only records which ranges were allocated as
// pinned: is_pinned() returns true for them, which DataLoader(pin_memory=True) relies on.
#pragma once

#include <cstddef>

namespace c10 {
struct Allocator;
}

namespace mpsx::backend {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* p);
void register_pinned_allocator();

}  // namespace mpsx::backend
