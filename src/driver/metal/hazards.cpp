#include "driver/metal/hazards.h"

namespace mpsx::driver::metal {
namespace {
bool is_memory(const Argument& a) { return a.kind == Argument::Kind::buffer && a.data; }
bool is_written(const Argument& a) { return a.access == Access::write; }
}  // namespace

void Hazards::clear() {
  if (empty_) return;
  for (const Range& r : ranges_) first_[hash(r.buffer)] = kNone;
  ranges_.clear();
  empty_ = true;
  everything_ = false;
}

bool Hazards::conflicts(const Argument& a) const {
  for (uint32_t i = first_[hash(a.data)]; i != kNone; i = ranges_[i].next) {
    const Range& r = ranges_[i];
    if (r.buffer == a.data && r.begin < a.end && a.begin < r.end && (r.written || is_written(a))) return true;
  }
  return false;
}

void Hazards::record(const Argument& a) {
  uint32_t& first = first_[hash(a.data)];
  // Many dispatches read the same tensor.
  for (uint32_t i = first; i != kNone; i = ranges_[i].next) {
    const Range& r = ranges_[i];
    if (r.buffer == a.data && r.begin <= a.begin && a.end <= r.end && (r.written || !is_written(a))) return;
  }
  ranges_.push_back({a.data, a.begin, a.end, is_written(a), first});
  first = uint32_t(ranges_.size() - 1);
}

bool Hazards::add(const Argument* arguments, size_t count, const Dispatch& dispatch) {
  bool conflict = !empty_ && (everything_ || dispatch.uses_other_memory);
  for (size_t i = 0; i < count && !conflict; ++i) conflict = is_memory(arguments[i]) && conflicts(arguments[i]);
  if (conflict) clear();
  for (size_t i = 0; i < count; ++i)
    if (is_memory(arguments[i])) record(arguments[i]);
  everything_ |= dispatch.uses_other_memory;
  empty_ = false;
  return conflict;
}

}  // namespace mpsx::driver::metal
