// Pinned host memory. Unified memory does not need page pinning. This allocator only records which ranges were
// allocated as pinned, so that is_pinned() returns true for them. DataLoader(pin_memory=True) relies on this.
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
