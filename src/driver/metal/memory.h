// Buffers in memory shared by CPU and GPU. The caller owns a reference to each buffer's handle.
#pragma once

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

class Memory {
 public:
  explicit Memory(Owned<id<MTLDevice>> device);

  Buffer allocate(size_t bytes);
  // Wraps memory that the driver does not own. It must consist of whole pages and outlive the buffer. On failure,
  // returns a null handle.
  Buffer wrap(void* contents, size_t bytes);
  Buffer share(void* handle);
  size_t free_bytes() const;

 private:
  Owned<id<MTLDevice>> device_;
  size_t page_;
};

// Whether MPSX_METAL_SERIAL is set (command_stream.h).
bool is_serial();
// The options of all buffers.
MTLResourceOptions buffer_options();

inline id<MTLBuffer> as_buffer(const void* handle) { return (id<MTLBuffer>)const_cast<void*>(handle); }

}  // namespace mpsx::driver::metal
