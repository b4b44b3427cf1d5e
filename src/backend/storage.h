// Storage twins: a device storage and a CPU storage over the same memory.
//
// A c10::StorageImpl belongs to one device, and view kernels create tensors from it, so one storage cannot serve two
// devices. Instead, a device storage creates and owns a CPU twin on demand, and an alias of a device tensor is a CPU
// tensor that uses the twin. Both storages hold a reference to the memory, so either may outlive the other.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/allocator.h"

namespace mpsx::backend {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// Allocates device memory for a new storage.
c10::DataPtr allocate_data(size_t bytes);

// Wraps another library's buffer (an MTLBuffer) as storage memory. The result keeps `owner` alive.
c10::DataPtr shared_data(void* handle, std::shared_ptr<void> owner);

// Returns the CPU twin of a device storage, creating it on first use. Materializes copy-on-write storages. Waits for
// the device's work on the storage, because the caller is about to access it from the CPU.
StoragePtr cpu_twin(c10::StorageImpl* device);

// Returns the twin, or null if it does not exist.
c10::StorageImpl* existing_twin(const c10::StorageImpl* device);

// Returns a new device storage whose twin is `cpu`. Copies the data only if the driver does not use process memory.
StoragePtr adopt(StoragePtr cpu);

// Points `device` to the current memory of its CPU twin `cpu`, after a kernel has resized the twin.
void rebind(c10::StorageImpl* device, StoragePtr cpu);

// Resizes a device storage, keeping its contents.
void resize_storage(c10::StorageImpl* device, size_t bytes);

// Returns the allocator of CPU twins. It allocates device memory when a CPU kernel resizes a result.
c10::Allocator* twin_allocator();

}  // namespace mpsx::backend
