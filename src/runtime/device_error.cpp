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
#include "runtime/stream.h"

namespace mpsx::runtime {
namespace {

struct Slot {
  const char* op;
  ErrorRecord* record;
};
// Every record ever made, for drivers that report late. One an op and thread, so their number stays small.
struct Slots {
  std::mutex mutex;
  std::deque<Slot> all;
  std::vector<Slot> spare;  // of threads that have ended
};
Slots& slots_of_all() {
  static Slots* s = new Slots;
  return *s;
}
// A thread's records; when it ends, another thread takes them over.
struct Own {
  std::vector<Slot> slots;
  ~Own() {
    Slots& s = slots_of_all();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.spare.insert(s.spare.end(), slots.begin(), slots.end());
  }
};
thread_local Own own_records;
thread_local const Slot* last = nullptr;

// An index out of bounds is an IndexError, but of these operators, as on the CPU, a RuntimeError.
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
  // In PyTorch's words.
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
  auto& own = own_records.slots;
  for (const Slot& s : own)
    if (s.op == op) {
      last = &s;
      return s.record;
    }
  if (own.capacity() == 0) own.reserve(256);  // `last` points into it
  TORCH_CHECK(own.size() < own.capacity(), op, ": too many operators report device errors");
  Slots& s = slots_of_all();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const auto spare = std::find_if(s.spare.begin(), s.spare.end(), [op](const Slot& slot) { return slot.op == op; });
    if (spare != s.spare.end()) {
      last = &own.emplace_back(*spare);
      s.spare.erase(spare);
      return last->record;
    }
  }
  Block* block = allocate_near_cpu(sizeof(ErrorRecord));
  prepare_cpu_access(block->data);  // its last user may still be at work
  auto* record = new (block->data) ErrorRecord{};
  own.push_back({op, record});
  last = &own.back();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.all.push_back(own.back());
  return record;
}

void check_device_errors() {
  if (last && !driver().traits().asynchronous) check(*last);
}

void wait_for_device_errors() {
  if (!last) return;
  wait_for_use(last->record);
  check(*last);
}

void check_device_errors_after_synchronize() {
  if (!driver_started() || !driver().traits().asynchronous) return;
  Slots& s = slots_of_all();
  std::lock_guard<std::mutex> lock(s.mutex);
  // Other threads may have launched since; they must not do so while the records are read.
  const LaunchPause pause;
  const Slot* found = nullptr;
  for (const Slot& slot : s.all) {
    volatile uint32_t* state = driver().reached(last_use(slot.record)) ? &slot.record->state : nullptr;
    if (!state || *state == 0) continue;
    // Several kernels may report the same wrong index: it is raised once, not again at a later wait.
    if (found) *state = 0;
    if (!found) found = &slot;
  }
  if (found) check(*found);
}

}  // namespace mpsx::runtime
