#include "driver/metal/hazards.h"

namespace mpsx::driver::metal {

void Hazards::clear() {
  start_ = number_ + 1;
  ranges_ = 0;
  everything_ = false;
}

// Records arguments of the last dispatch, up to the first that conflicts with an earlier dispatch. Returns whether
// there is one.
inline bool Hazards::record(const Argument* arguments, size_t count) {
  const uint64_t own = number_ << 1, start = start_ << 1;
  size_t ranges = ranges_;
  bool everything = everything_, conflict = false;
  for (const Argument *a = arguments, *end = a + count; a != end; ++a) {
    if (a->kind != Argument::Kind::buffer || !a->data) continue;
    everything |= a->end == SIZE_MAX;  // such an argument may overlap the buffer's other ranges
    const uint64_t written = a->access == Access::write;
    Range* r = &slots_[slot_of(*a)];
    while (r->use >= start && (r->buffer != a->data || r->begin != a->begin))
      if (++r == slots_.end()) r = slots_.begin();
    if (r->use < start) {
      *r = {a->data, a->begin, own | written};
      ++ranges;
    } else if (r->use >= own) {
      r->use |= written;  // a dispatch does not conflict with itself
    } else if ((r->use | written) & 1) {
      conflict = true;
      break;
    }
  }
  ranges_ = ranges;
  everything_ = everything;
  return conflict;
}

bool Hazards::add(const Argument* arguments, size_t count, const Dispatch& dispatch) {
  ++number_;
  bool conflict = everything_ || ranges_ > kMaxRanges;
  if (!conflict) {
    everything_ = dispatch.uses_other_memory;
    conflict = record(arguments, count) || (everything_ && number_ > start_);
  }
  if (conflict) {
    clear();
    ++number_;  // frees the slots that this dispatch has taken
    everything_ = dispatch.uses_other_memory;
    record(arguments, count);
  }
  return conflict;
}

}  // namespace mpsx::driver::metal
