#include "driver/metal/memory.h"

#include <unistd.h>

#include <algorithm>

namespace mpsx::driver::metal {

Memory::Memory(Owned<id<MTLDevice>> device) : device_(std::move(device)), page_(size_t(sysconf(_SC_PAGESIZE))) {}

Buffer Memory::allocate(size_t bytes) {
  AutoreleasePool pool;
  const NSUInteger length = std::max<size_t>(bytes, 1), most = device_.get().maxBufferLength;
  if (length > most)
    throw OutOfMemory("a Metal buffer has at most " + std::to_string(most) + " bytes, " + std::to_string(bytes) +
                      " are needed");
  // Tracked for hazards, as is the default: dispatches of different command buffers then wait for each other.
  id<MTLBuffer> buffer = [device_.get() newBufferWithLength:length options:MTLResourceStorageModeShared];
  if (!buffer) throw OutOfMemory("Metal has no " + std::to_string(bytes) + " bytes");
  return {(void*)buffer, [buffer contents], bytes};
}

void Memory::release(const Buffer& buffer) noexcept {
  AutoreleasePool pool;
  // Command buffers hold counts of their own, so what the GPU still uses stays.
  [as_buffer(buffer.handle) release];
}

Buffer Memory::wrap(void* contents, size_t bytes) {
  AutoreleasePool pool;
  if (!contents || bytes == 0 || uintptr_t(contents) % page_ || bytes % page_) return {};
  if (bytes > device_.get().maxBufferLength) return {};
  id<MTLBuffer> buffer = [device_.get() newBufferWithBytesNoCopy:contents
                                                          length:bytes
                                                         options:MTLResourceStorageModeShared
                                                     deallocator:nil];
  if (!buffer) return {};
  return {(void*)buffer, contents, bytes};
}

Buffer Memory::share(void* handle) {
  AutoreleasePool pool;
  id<MTLBuffer> buffer = as_buffer(handle);
  if (buffer.storageMode != MTLStorageModeShared || ![buffer contents])
    throw Error("expected a Metal buffer that the CPU shares (MTLStorageModeShared)");
  [buffer retain];
  return {handle, [buffer contents], buffer.length};
}

size_t Memory::free_bytes() const {
  AutoreleasePool pool;
  const size_t total = device_.get().recommendedMaxWorkingSetSize, used = device_.get().currentAllocatedSize;
  return used < total ? total - used : 0;
}

}  // namespace mpsx::driver::metal
