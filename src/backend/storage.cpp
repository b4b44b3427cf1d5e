#include "backend/storage.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/COW.h>

#include <atomic>
#include <cstring>

#include "backend/allocator.h"
#include "backend/cpu_allocator_guard.h"
#include "backend/device.h"
#include "runtime/device.h"
#include "runtime/fork.h"
#include "runtime/stream.h"

namespace mpsx::backend {
namespace {

// The context of a device storage's DataPtr. Contains the storage's block (null for adopted CPU memory) and its twin, a
// CPU storage over the same memory (null until it is created).
struct Twin {
  runtime::Block* block;
  std::atomic<c10::StorageImpl*> cpu;
  driver::Buffer wrapped{};   // adopted memory that is registered with the driver
  size_t external_bytes = 0;  // size of adopted memory that our allocator does not own
};

// Reports an allocation (`sign` is 1) or a release (`sign` is -1) to torch.profiler(profile_memory=True).
void report_memory(const runtime::Block* block, int sign) {
  if (C10_LIKELY(!c10::memoryProfilingEnabled()) || !block) return;
  const auto memory = runtime::memory_statistics();
  c10::reportMemoryUsageToProfiler(block->data, sign * int64_t(block->capacity), memory.allocated, memory.reserved,
                                   this_device());
}

void delete_twin(void* context) {
  auto* twin = static_cast<Twin*>(context);
  report_memory(twin->block, -1);
  if (auto* cpu = twin->cpu.load(std::memory_order_acquire)) StoragePtr::reclaim(cpu);
  if (twin->block) runtime::release(twin->block);
  if (C10_UNLIKELY(twin->wrapped.contents) && !runtime::is_bad_fork()) runtime::driver().release(twin->wrapped);
  if (twin->external_bytes) runtime::discount_external_memory(twin->external_bytes);
  delete twin;
}

void release_block(void* context) { runtime::release(static_cast<runtime::Block*>(context)); }
void release_storage(void* context) { StoragePtr::reclaim(static_cast<c10::StorageImpl*>(context)); }

c10::DataPtr block_on_cpu(runtime::Block* block) {
  return {block->data, block, &release_block, c10::Device(c10::kCPU)};
}

// Allocates a block that the CPU may write immediately. If the device is still using a cached block, waits for it.
runtime::Block* allocate_for_cpu(size_t bytes) {
  runtime::Block* block = runtime::allocate(bytes);
  if (bytes) runtime::prepare_cpu_access(block->data);
  return block;
}

// The allocator of CPU twins. CPU kernels call it to resize an output. For zero bytes, the context is null.
struct TwinAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return block_on_cpu(allocate_for_cpu(bytes)); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (bytes) std::memcpy(to, from, bytes);
  }
};

StoragePtr cpu_storage(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                               twin_allocator(), /*resizable=*/true);
}

Twin* twin_of(const c10::StorageImpl* device) {
  const auto& data = device->data_ptr();
  return data.get_deleter() == &delete_twin ? static_cast<Twin*>(data.get_context()) : nullptr;
}

// Returns the DataPtr of a device storage that uses the memory of a CPU storage.
c10::DataPtr adopted_data(StoragePtr cpu) {
  void* p = cpu->mutable_data();
  auto& driver = runtime::driver();
  driver::Buffer wrapped;
  if (C10_UNLIKELY(driver.traits().exact_allocations && driver.traits().uses_process_memory()) && p)
    wrapped = driver.wrap(p, cpu->nbytes());
  const auto& data = cpu->data_ptr();
  const bool counted = data.get_deleter() == &release_block || is_device_cache_memory(data);
  const size_t external_bytes = counted ? 0 : cpu->nbytes();
  if (external_bytes) runtime::count_external_memory(external_bytes);
  return {p, new Twin{nullptr, {cpu.release()}, wrapped, external_bytes}, &delete_twin, this_device()};
}

// Creates a twin for a storage whose DataPtr is not ours (from_blob, DLPack). The twin keeps the device storage alive.
StoragePtr borrowed(c10::StorageImpl* device) {
  void* p = device->mutable_data();
  auto keep = StoragePtr::reclaim_copy(device);
  return cpu_storage(device->nbytes(), {p, keep.release(), &release_storage, c10::Device(c10::kCPU)});
}

}  // namespace

c10::Allocator* twin_allocator() {
  static auto* allocator = new TwinAllocator();
  return allocator;
}

c10::DataPtr allocate_data(size_t bytes) {
  auto* block = runtime::allocate(bytes);
  report_memory(block, 1);
  return {block->data, new Twin{block, {nullptr}}, &delete_twin, this_device()};
}

runtime::Block* block_of(const c10::StorageImpl* device) {
  const Twin* twin = twin_of(device);
  return twin ? twin->block : nullptr;
}

StoragePtr storage_over(runtime::Block* block, size_t bytes) {
  block ? runtime::retain(block) : void(block = runtime::allocate(0));
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(block->data, new Twin{block, {nullptr}}, &delete_twin, this_device()), device_allocator(),
      /*resizable=*/true);
}

c10::DataPtr shared_data(void* handle, std::shared_ptr<void> owner) {
  auto* block = runtime::share(handle, std::move(owner));
  return {block->data, new Twin{block, {nullptr}}, &delete_twin, this_device()};
}

c10::StorageImpl* existing_twin(const c10::StorageImpl* device) {
  auto* twin = twin_of(device);
  return twin ? twin->cpu.load(std::memory_order_acquire) : nullptr;
}

StoragePtr cpu_twin(c10::StorageImpl* device) {
  auto* twin = twin_of(device);
  if (C10_UNLIKELY(!twin)) {
    if (c10::impl::cow::is_cow_data_ptr(device->data_ptr())) device->mutable_data();
    twin = twin_of(device);
  }
  runtime::prepare_cpu_access(device->data());  // from_blob storages, which torch.save creates, also need this
  if (C10_UNLIKELY(!twin)) return borrowed(device);
  auto* cpu = twin->cpu.load(std::memory_order_acquire);
  if (!cpu) {
    runtime::retain(twin->block);
    auto made = cpu_storage(device->nbytes(), block_on_cpu(twin->block));
    if (twin->cpu.compare_exchange_strong(cpu, made.get(), std::memory_order_acq_rel)) cpu = made.release();
  } else if (C10_UNLIKELY(cpu->nbytes() != device->nbytes())) {
    cpu->set_nbytes(device->nbytes());
  }
  return StoragePtr::reclaim_copy(cpu);
}

StoragePtr adopt(StoragePtr cpu) {
  const size_t bytes = cpu->nbytes();
  c10::DataPtr data;
  // A ZeroTensor has a size but no memory.
  if (runtime::driver().traits().uses_process_memory() || bytes == 0 || !cpu->data()) {
    data = adopted_data(std::move(cpu));
  } else {
    data = allocate_data(bytes);
    runtime::copy(data.get(), cpu->data(), bytes);
  }
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                               device_allocator(), /*resizable=*/true);
}

void rebind(c10::StorageImpl* device, StoragePtr cpu) {
  const size_t bytes = cpu->nbytes();
  device->set_data_ptr_noswap(adopted_data(std::move(cpu)));
  device->set_nbytes(bytes);
}

void resize_storage(c10::StorageImpl* device, size_t bytes) {
  TORCH_CHECK(device->resizable(), "resize_: this storage on mpsx is not resizable");
  c10::DataPtr data = allocate_data(bytes);
  const size_t kept = std::min(bytes, device->nbytes());
  if (kept) {
    runtime::copy(data.get(), device->data(), kept);
  }
  device->set_data_ptr_noswap(std::move(data));
  device->set_nbytes(bytes);
}

}  // namespace mpsx::backend
