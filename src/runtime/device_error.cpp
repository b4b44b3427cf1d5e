#include "runtime/device_error.h"

#include <c10/util/Exception.h>

#include <deque>
#include <mutex>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/error_record.h"
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
};
Slots& slots() {
  static Slots* s = new Slots;
  return *s;
}
thread_local std::vector<Slot> own;
thread_local const Slot* last = nullptr;

void check(const Slot& slot) {
  volatile uint32_t& state = slot.record->state;
  if (state == 0) return;
  const ErrorRecord found = *slot.record;
  state = 0;
  TORCH_CHECK(found.state != ErrorRecord::kOutsideUnit, slot.op, ": all elements of ",
              found.dimension == 0 ? "input" : "target", " should be between 0 and 1");
  TORCH_CHECK_INDEX(false, slot.op, ": index ", found.index, " is out of bounds for dimension ",
                    found.dimension, " with size ", found.size);
}

}  // namespace

void* device_error_record(const char* op) {
  for (const Slot& s : own)
    if (s.op == op) {
      last = &s;
      return s.record;
    }
  Block* block = allocate(sizeof(ErrorRecord));
  prepare_cpu_access(block->data);  // its last user may still be at work
  auto* record = new (block->data) ErrorRecord{};
  if (own.capacity() == 0) own.reserve(256);  // `last` points into it
  TORCH_CHECK(own.size() < own.capacity(), op, ": too many operators report device errors");
  own.push_back({op, record});
  last = &own.back();
  Slots& s = slots();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.all.push_back(own.back());
  return record;
}

void check_device_errors() {
  if (last && !driver().info().asynchronous) check(*last);
}

void check_device_errors_after_synchronize() {
  if (!driver_started() || !driver().info().asynchronous) return;
  Slots& s = slots();
  std::lock_guard<std::mutex> lock(s.mutex);
  // Another thread's work on its records may have begun since.
  for (const Slot& slot : s.all)
    if (driver().reached(last_use(slot.record))) check(slot);
}

}  // namespace mpsx::runtime
