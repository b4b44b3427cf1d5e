#include "runtime/device_error.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/error_record.h"
#include "runtime/launch_pause.h"
#include "runtime/launch_recording.h"
#include "runtime/shader_errors.h"
#include "runtime/stream.h"

namespace mpsx::runtime {
namespace {

struct Slot {
  const char* op;
  ErrorRecord* record;
};
// All error records. On an asynchronous driver, every wait checks all of them. That is cheap, because a thread has only
// one record per operator.
struct RecordRegistry {
  std::mutex mutex;
  std::deque<Slot> all;
  std::vector<Slot> unused;  // records of ended threads
};
RecordRegistry& record_registry() {
  static RecordRegistry* r = new RecordRegistry;
  return *r;
}
// The calling thread's records. After the thread ends, other threads reuse them.
struct ThreadSlots {
  std::vector<Slot> slots;
  ~ThreadSlots() {
    RecordRegistry& r = record_registry();
    std::lock_guard<std::mutex> lock(r.mutex);
    r.unused.insert(r.unused.end(), slots.begin(), slots.end());
  }
};
thread_local ThreadSlots thread_slots;
thread_local const Slot* last = nullptr;

// Out-of-range indices raise IndexError, except in these operators, whose CPU kernels raise RuntimeError.
bool is_runtime_error(std::string_view op) {
  for (const char* name : {"gather", "scatter", "index_add", "embedding_bag", "multi_margin", "multilabel_margin"})
    if (op.starts_with(name)) return true;
  return false;
}

void check(const Slot& slot) {
  volatile uint32_t& state = slot.record->state;
  if (state == 0) return;
  const ErrorRecord found = *slot.record;
  state = 0;
  TORCH_CHECK(found.state != ErrorRecord::kOutsideUnit, slot.op, ": all elements of ",
              found.dimension == 0 ? "input" : "target", " should be between 0 and 1");
  // These messages match PyTorch's.
  TORCH_CHECK(found.state != ErrorRecord::kWeights,
              found.dimension ? "probability tensor contains either `inf`, `nan` or element < 0"
                              : "invalid multinomial distribution (sum of probabilities <= 0)");
  const std::string message = c10::str(slot.op, ": index ", found.index, " is out of bounds for dimension ",
                                       found.dimension, " with size ", found.size);
  TORCH_CHECK(!is_runtime_error(slot.op), message);
  TORCH_CHECK_INDEX(false, message);
}

}  // namespace

void* device_error_record(const char* op) {
  auto& own = thread_slots.slots;
  for (const Slot& s : own)
    if (s.op == op) {
      last = &s;
      return s.record;
    }
  if (own.capacity() == 0) own.reserve(256);  // must never reallocate, because `last` points into it
  TORCH_CHECK(own.size() < own.capacity(), op, ": too many operators report device errors");
  RecordRegistry& r = record_registry();
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    const auto unused =
        std::find_if(r.unused.begin(), r.unused.end(), [op](const Slot& slot) { return slot.op == op; });
    if (unused != r.unused.end()) {
      last = &own.emplace_back(*unused);
      r.unused.erase(unused);
      return last->record;
    }
  }
  const PoolPause outlives_recordings;
  Block* block = allocate_host_resident(sizeof(ErrorRecord));
  prepare_cpu_access(block->data);  // the block's previous owner may have launched a kernel that still uses it
  auto* record = new (block->data) ErrorRecord{};
  own.push_back({op, record});
  last = &own.back();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.all.push_back(own.back());
  return record;
}

void check_device_error(const char* op, ErrorRecord& record) {
  if (!driver().traits().asynchronous) check({op, &record});
}

void check_device_errors() {
  if (LaunchRecording* const to = recording(); to && last) to->add_error_check(last->op, last->record);
  if (last && !driver().traits().asynchronous) check(*last);
}

void wait_for_device_errors() {
  if (!last) return;
  wait_for_use(last->record);
  check(*last);
}

void check_device_errors_after_synchronize() {
  if (!driver_started() || !driver().traits().asynchronous) return;
  RecordRegistry& r = record_registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  // Prevent other threads from launching kernels while this thread reads the records.
  const LaunchPause pause;
  const Slot* found = nullptr;
  for (const Slot& slot : r.all) {
    volatile uint32_t* state = driver().is_complete(last_use_seq(slot.record)) ? &slot.record->state : nullptr;
    if (!state || *state == 0) continue;
    // Several kernels may report the same bad index. Throw the first report and clear the others, or a later wait would
    // throw them.
    if (found) *state = 0;
    if (!found) found = &slot;
  }
  if (found) check(*found);
  check_shader_errors_during_pause();
}

}  // namespace mpsx::runtime
