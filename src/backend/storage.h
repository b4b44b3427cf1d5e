// Storage twins: a device storage and a CPU storage that use the same memory.
//
// A c10::StorageImpl belongs to one device, and view kernels create tensors from it, so tensors on two devices cannot
// share one storage. Instead, a device storage creates and owns a CPU twin on demand. The CPU alias of a device tensor
// uses this twin. Both storages hold a reference to the memory, so either may outlive the other.
#pragma once

#include <c10/core/Storage.h>

#include "runtime/allocator.h"

namespace mpsx::backend {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// Allocates device memory for a new storage.
c10::DataPtr allocate_data(size_t bytes);

// Returns the block of a device storage, or null if it has none (adopted CPU memory, from_blob).
runtime::Block* block_of(const c10::StorageImpl* device);

// Returns a new device storage over a block, to which it adds a reference. A null block makes an empty storage.
StoragePtr storage_over(runtime::Block* block, size_t bytes);

// Wraps another library's buffer (an MTLBuffer) for use by a storage. The result keeps `owner` alive.
c10::DataPtr shared_data(void* handle, std::shared_ptr<void> owner);

// Returns the CPU twin of a device storage, which is created on first use. Materializes copy-on-write storages. Waits
// for the device's work on the storage, because the caller is about to access it from the CPU.
StoragePtr cpu_twin(c10::StorageImpl* device);

// Returns the CPU twin, or null if it has not been created.
c10::StorageImpl* existing_twin(const c10::StorageImpl* device);

// Returns a new device storage whose twin is `cpu`. The data is copied only if the driver does not use process memory.
StoragePtr adopt(StoragePtr cpu);

// After a kernel has resized the CPU twin `cpu`, makes `device` use the twin's current memory.
void rebind(c10::StorageImpl* device, StoragePtr cpu);

// Resizes a device storage and keeps its contents.
void resize_storage(c10::StorageImpl* device, size_t bytes);

// Returns the allocator of CPU twins. When a CPU kernel resizes a result, it allocates device memory.
c10::Allocator* twin_allocator();

}  // namespace mpsx::backend
