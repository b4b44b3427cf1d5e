#include "runtime/stream.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/device_error.h"
#include "runtime/launch_plan.h"
#include "runtime/launch_recording.h"

namespace mpsx::runtime {
namespace {

constexpr const char* kCpuAccess = "an access from the CPU to the memory of a tensor";
constexpr size_t kPool = 32;  // as many as in PyTorch's CUDA stream pools
thread_local StreamId current = 0;
std::atomic<uint64_t> next{0};
std::mutex mutex;
std::array<std::atomic<driver::Stream*>, kPool + 1> streams{};

template <typename F>
void guarded(F&& f) {
  try {
    f();
  } catch (const driver::OutOfMemory& e) {
    const MemoryStatistics memory = memory_statistics();
    TORCH_CHECK_WITH(OutOfMemoryError, false, "mpsx: out of memory. ", e.what(), "; tensors use ",
                     memory.allocated >> 20, " MiB, ", memory.reserved >> 20, " MiB are reserved, limit ",
                     memory_limit() >> 20, " MiB. The results of the pending work are lost. Use smaller batches, free ",
                     "tensors, or lower the limit with MPSX_MEMORY_LIMIT or ",
                     "torch.mpsx.set_per_process_memory_fraction(), so that the cache is emptied before the GPU runs ",
                     "out of memory.");
  } catch (const driver::Error& e) {
    TORCH_CHECK(false, "mpsx: ", e.what());
  }
}

}  // namespace

StreamId current_stream() { return current; }
void set_current_stream(StreamId id) {
  TORCH_CHECK(id >= 0 && id <= StreamId(kPool), "mpsx: expected a stream id from 0 to ", kPool, ", got ", id);
  current = id;
}
StreamId new_stream() { return StreamId(next.fetch_add(1) % kPool) + 1; }

driver::Stream* driver_stream(StreamId id) {
  auto& slot = streams[size_t(id)];
  if (auto* s = slot.load(std::memory_order_acquire)) return s;
  std::lock_guard<std::mutex> lock(mutex);
  if (!slot.load()) slot.store(id == 0 ? driver().default_stream() : driver().new_stream(), std::memory_order_release);
  return slot.load();
}

void synchronize(StreamId id) {
  guarded([&] { driver().synchronize(driver_stream(id)); });
  check_device_errors_after_synchronize();
}

void synchronize() {
  if (!driver_started()) return;
  for (auto& slot : streams)
    if (auto* s = slot.load(std::memory_order_acquire)) guarded([&] { driver().synchronize(s); });
  check_device_errors_after_synchronize();
}

bool idle(StreamId id) { return driver().idle(driver_stream(id)); }

void wait_for_use(const void* p) {
  reject_recording(kCpuAccess);
  static const bool asynchronous = driver().traits().asynchronous;
  if (!asynchronous) return;
  const uint64_t seq = last_use_seq(p);
  if (seq == 0) return;
  guarded([&] { driver().wait_until(seq); });
  check_device_errors_after_synchronize();
}

void prepare_cpu_access(const void* p) {
  wait_for_use(p);
  note_cpu_access(p);
}

void copy(void* to, const void* from, size_t bytes) {
  reject_recording(kCpuAccess);
  reject_plan(kCpuAccess);
  wait_for_use(to);
  wait_for_use(from);
  guarded([&] { driver().copy(to, from, bytes); });
}

void read_number(void* to, const void* from, size_t bytes) {
  if (active_plan)
    std::memset(to, 0, bytes);
  else
    copy(to, from, bytes);
}

void wait_for_use_nothrow(const void* p) noexcept {
  if (const uint64_t seq = last_use_seq(p)) driver().wait_until_nothrow(seq);
}

}  // namespace mpsx::runtime
