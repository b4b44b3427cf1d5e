// Streams and synchronization. Stream 0 is the default stream, and each thread has a current stream.
#pragma once

#include <cstdint>

#include "driver/driver.h"

namespace mpsx::runtime {

using StreamId = int64_t;

StreamId current_stream();
void set_current_stream(StreamId);
StreamId new_stream();  // round-robin from a small pool
driver::Stream* driver_stream(StreamId);

void synchronize(StreamId);
void synchronize();  // waits for all streams; throws device errors
bool idle(StreamId);

// Commits and waits for the work on the block of device memory that contains `p`. Call it before the CPU accesses the
// block. Does nothing on a synchronous driver or for memory that does not belong to the device.
void prepare_cpu_access(const void* p);
// Like prepare_cpu_access(), but does not record a CPU access, so the block is not prefetched back to the device.
void wait_for_use(const void* p);
// Copies between device and CPU memory in any combination, after waiting for pending work on both.
void copy(void* to, const void* from, size_t bytes);
// Like wait_for_use, but leaves errors for a later call to throw.
void wait_for_use_nothrow(const void* p) noexcept;

}  // namespace mpsx::runtime
