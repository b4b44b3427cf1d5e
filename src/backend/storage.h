// Storage twins: a device storage and a CPU storage over the same memory.
//
// A c10::StorageImpl belongs to one device, and view kernels create tensors from it, so it cannot serve two devices. A
// device storage therefore owns, on demand, a CPU twin over the same memory; an alias of a device tensor is a CPU
// tensor over that twin. Both hold a reference to the memory, so either may outlive the other.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/allocator.h"

namespace mpsx::backend {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// Allocates device memory for a new storage.
c10::DataPtr allocate_data(size_t bytes);

// Wraps another library's buffer (an MTLBuffer) as a storage's memory; `owner` keeps it alive.
c10::DataPtr shared_data(void* handle, std::shared_ptr<void> owner);

// Returns the CPU twin of a device storage and creates it on first use. Materializes copy-on-write storages. Waits for
// the device's work on the storage, because the caller is about to access it on the CPU.
StoragePtr cpu_twin(c10::StorageImpl* device);

// Returns the twin if it exists, else null.
c10::StorageImpl* existing_twin(const c10::StorageImpl* device);

// Returns a new device storage whose twin is `cpu`. Zero-copy if the driver uses process memory, else copied once.
StoragePtr adopt(StoragePtr cpu);

// Points `device` to the current memory of its twin `cpu`, after a kernel has resized the twin.
void rebind(c10::StorageImpl* device, StoragePtr cpu);

// Grows or shrinks a device storage, keeping its contents.
void resize_storage(c10::StorageImpl* device, size_t bytes);

// The allocator of twins, which allocates device memory when a CPU kernel resizes a result.
c10::Allocator* twin_allocator();

}  // namespace mpsx::backend
