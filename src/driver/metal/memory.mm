#include "driver/metal/memory.h"

#include <unistd.h>

#include <algorithm>

#include "driver/environment.h"

namespace mpsx::driver::metal {

bool is_serial() {
  static const bool serial = env_flag("MPSX_METAL_SERIAL");
  return serial;
}

MTLResourceOptions buffer_options() {
  const auto tracking = is_serial() ? MTLResourceHazardTrackingModeDefault : MTLResourceHazardTrackingModeUntracked;
  return MTLResourceOptions(MTLResourceStorageModeShared | tracking);
}

Memory::Memory(Owned<id<MTLDevice>> device) : device_(std::move(device)), page_(size_t(sysconf(_SC_PAGESIZE))) {}

Buffer Memory::allocate(size_t bytes) {
  AutoreleasePool pool;
  const NSUInteger length = std::max<size_t>(bytes, 1), limit = device_.get().maxBufferLength;
  if (length > limit)
    throw OutOfMemory("expected at most " + std::to_string(limit) + " bytes for a Metal buffer, got " +
                      std::to_string(bytes));
  id<MTLBuffer> buffer = [device_.get() newBufferWithLength:length options:buffer_options()];
  if (!buffer) throw OutOfMemory("Metal cannot allocate " + std::to_string(bytes) + " bytes");
  return {(void*)buffer, [buffer contents], bytes};
}

Buffer Memory::wrap(void* contents, size_t bytes) {
  AutoreleasePool pool;
  if (!contents || bytes == 0 || uintptr_t(contents) % page_ || bytes % page_) return {};
  if (bytes > device_.get().maxBufferLength) return {};
  id<MTLBuffer> buffer = [device_.get() newBufferWithBytesNoCopy:contents
                                                          length:bytes
                                                         options:buffer_options()
                                                     deallocator:nil];
  if (!buffer) return {};
  return {(void*)buffer, contents, bytes};
}

Buffer Memory::share(void* handle) {
  AutoreleasePool pool;
  id<MTLBuffer> buffer = as_buffer(handle);
  if (buffer.storageMode != MTLStorageModeShared || ![buffer contents])
    throw Error("expected a Metal buffer with MTLStorageModeShared");
  [buffer retain];
  return {handle, [buffer contents], buffer.length};
}

size_t Memory::free_bytes() const {
  AutoreleasePool pool;
  const size_t total = device_.get().recommendedMaxWorkingSetSize, used = device_.get().currentAllocatedSize;
  return used < total ? total - used : 0;
}

}  // namespace mpsx::driver::metal
