// Streams and waiting. Stream 0 is the default; each thread has a current stream.
#pragma once

#include <cstdint>

#include "driver/driver.h"

namespace mpsx::runtime {

using StreamId = int64_t;

StreamId current_stream();
void set_current_stream(StreamId);
StreamId new_stream();  // from a small pool, round robin
driver::Stream* driver_stream(StreamId);

void synchronize(StreamId);
void synchronize();  // every stream; throws what failed on the device
bool idle(StreamId);

// Before the CPU reads or writes the block of device memory that `p` lies in: commits and waits for the work on that
// block, and for no other. Nothing on a synchronous driver, or for memory that is not the device's.
void prepare_cpu_access(const void* p);
// Only waits: for what the CPU does not touch itself.
void wait_for_use(const void* p);
// Copies memory of the device or the CPU to either, after the work on both is complete.
void copy(void* to, const void* from, size_t bytes);
// As wait_for_use, but leaves errors to a later call.
void finish_use(const void* p) noexcept;

}  // namespace mpsx::runtime
