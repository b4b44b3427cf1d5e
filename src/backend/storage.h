// Storage twins: a device storage and a CPU storage over the same memory.
//
// A c10::StorageImpl belongs to one device, and view kernels rebuild tensors from it, so it cannot serve two. A device
// storage therefore owns, on demand, a CPU twin over the same bytes; an alias of a device tensor is a CPU tensor over
// that twin. Both hold a reference on the memory, so either may outlive the other.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/allocator.h"

namespace mpsx::backend {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// Device memory for a new storage.
c10::DataPtr allocate_data(size_t bytes);

// Another library's buffer (an MTLBuffer) as a storage's memory; `owner` keeps it.
c10::DataPtr shared_data(void* handle, std::shared_ptr<void> owner);

// The CPU twin of a device storage; created on first use, the same one ever after. Materialises copy-on-write storages.
// Waits for the device's work on it: whoever wants a twin is about to read or write on the CPU.
StoragePtr cpu_twin(c10::StorageImpl* device);

// The twin if there is one already.
c10::StorageImpl* existing_twin(const c10::StorageImpl* device);

// A new device storage whose twin is `cpu`. Zero-copy where the driver addresses any memory, else copied once.
StoragePtr adopt(StoragePtr cpu);

// Points `device` to the memory that its twin `cpu` has now (a kernel resized it).
void rebind(c10::StorageImpl* device, StoragePtr cpu);

// Grows or shrinks a device storage, keeping its contents.
void resize_storage(c10::StorageImpl* device, size_t bytes);

// Allocates device memory for results that a CPU kernel resizes.
c10::Allocator* twin_allocator();

}  // namespace mpsx::backend
