// Streams and synchronization. Stream 0 is the default stream. Each thread has a current stream.
#pragma once

#include <cstdint>

#include "driver/driver.h"

namespace mpsx::runtime {

using StreamId = int64_t;

StreamId current_stream();
void set_current_stream(StreamId);
StreamId new_stream();  // taken round-robin from a small pool
driver::Stream* driver_stream(StreamId);

void synchronize(StreamId);
void synchronize();  // waits for all streams and throws device errors
bool idle(StreamId);

// Commits pending work on the block of device memory that contains `p`, and waits for it. Call this before the CPU
// accesses the block. Does nothing on a synchronous driver or if `p` is not device memory.
void prepare_cpu_access(const void* p);
// Like prepare_cpu_access(), but without recording a CPU access, so the block is not prefetched to the device again.
void wait_for_use(const void* p);
// Copies within or between device and CPU memory, after waiting for pending work on both sides.
void copy(void* to, const void* from, size_t bytes);
// Copies a number from device memory, after waiting for the work that computes it. In a plan (launch_plan.h), the
// number is 0.
void read_number(void* to, const void* from, size_t bytes);
// Like wait_for_use(), but leaves errors to be thrown by a later call.
void wait_for_use_nothrow(const void* p) noexcept;

}  // namespace mpsx::runtime
