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

// Before the CPU reads or writes device memory: commits and waits on an asynchronous driver; free on a
// synchronous one.
void prepare_cpu_access();

}  // namespace mpsx::runtime
