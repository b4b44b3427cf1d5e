#include "driver/host/simt/device_shadow.h"

#include <algorithm>
#include <utility>

namespace mpsx::driver::host::simt {

void DeviceOrder::begin_group(uint32_t group) {
  *this = {};
  mark_ = uint64_t(group + 1) << DeviceShadow::kGroupShift | uint64_t(1) << DeviceShadow::kTimeShift;
}

// Advances the time and returns the new one. From kMaxTime on, the time no longer advances. To avoid false reports,
// every barrier then orders all accesses of the threadgroup, even those after it.
uint32_t DeviceOrder::tick() {
  const uint32_t now = DeviceShadow::time(mark_);
  if (now < DeviceShadow::kMaxTime) mark_ += uint64_t(1) << DeviceShadow::kTimeShift;
  return now + 1;
}

void DeviceOrder::threadgroup_barrier(bool fences) {
  last_barrier_ = tick();
  if (fences) last_fence_ = last_barrier_;
}

void DeviceOrder::simdgroup_barrier(unsigned simdgroup, bool fences) {
  simd_last_barrier_[simdgroup] = tick();
  if (fences) simd_last_fence_[simdgroup] = simd_last_barrier_[simdgroup];
}

// Returns null if there are too many cells or too little memory. The OS provides the pages of a large array on first
// access.
DeviceShadow::Cells DeviceShadow::make(size_t count) noexcept {
  return Cells(count > kMaxCells ? nullptr : static_cast<Cell*>(std::calloc(count, sizeof(Cell))));
}

DeviceShadow::DeviceShadow(const char* begin, size_t bytes)
    : begin_(reinterpret_cast<uintptr_t>(begin)), bytes_(bytes), cells_(make(cells())) {}

void DeviceShadow::split(unsigned shift) {
  const size_t parts = size_t(1) << (shift_ - shift), count = cells();
  for (Cells* cells : {&cells_, &others_}) {
    if (!*cells) continue;
    Cells now = make(count * parts);
    for (size_t i = 0; now && i < count; ++i)
      if (const Cell& c = (*cells)[i]; c.writer.access | c.reader.access) std::fill_n(&now[i * parts], parts, c);
    *cells = std::move(now);
  }
  shift_ = shift;
}

// Returns whether barriers or fences order all accesses of `mark` before the access `now`.
bool DeviceShadow::fenced(const DeviceOrder& o, uint64_t mark, uint64_t now) {
  if (group(mark) != group(now) || sharers(mark) == kGroups) return o.after_fence_;
  if (time(mark) < o.last_fence_) return true;
  return sharers(mark) != kGroup && simdgroup(mark) == simdgroup(now) &&
         time(mark) < o.simd_last_fence_[simdgroup(now)];
}

DeviceShadow::Finding DeviceShadow::access_shared(const DeviceOrder& o, size_t cell, Mark now, bool stores) {
  const Cell& c = cells_[cell];
  Finding finding;
  if (races(o, c.writer.access, now.access))
    finding = found(o, cell, &Cell::writer, now.access);
  else if (stores && races(o, c.reader.access, now.access))
    finding = found(o, cell, &Cell::reader, now.access);
  if (stores && !(now.access & kAtomic))
    cells_[cell].writer = now;
  else
    record(o, cell, stores ? &Cell::writer : &Cell::reader, now);
  return finding;
}

// Adds the access `now` to a mark. Earlier accesses stay in the mark unless a barrier orders them before `now`. A mark
// cannot hold both atomic and other accesses, so the other accesses replace the atomic ones: they race with more.
void DeviceShadow::record(const DeviceOrder& o, size_t cell, Mark Cell::* kind, Mark now) {
  Mark& last = cells_[cell].*kind;
  const uint64_t was = last.access, atomic = now.access & kAtomic;
  if (was != 0 && !fenced(o, was, now.access) && (was & kAtomic) <= atomic) {
    if ((was & kAtomic) < atomic) return;
    if (!is_own(was, now.access)) {
      if (races(o, was & ~(kSharers | kAtomic), now.access)) {
        if (!others_) others_ = make(cells());
        if (others_) others_[cell].*kind = last;
      }
      const bool one_group = group(was) == group(now.access) && sharers(was) != kGroups;
      const bool one_simdgroup = one_group && sharers(was) != kGroup && simdgroup(was) == simdgroup(now.access);
      now.access |= (one_simdgroup ? kSimdgroup : one_group ? kGroup : kGroups) << kSharersShift;
    }
  }
  last = now;
}

// Describes the race with the accesses of a mark. Any of them may be the one that races, unless the last one is the
// thread's own or comes before a barrier.
DeviceShadow::Finding DeviceShadow::found(const DeviceOrder& o, size_t cell, Mark Cell::* kind, uint64_t now) const {
  const Mark& last = cells_[cell].*kind;
  const bool last_races = races(o, last.access & ~(kSharers | kAtomic), now);
  const auto [mark, code] = last_races || !others_ ? last : others_[cell].*kind;
  const bool other_group = group(mark) != group(now);
  const bool unfenced =
      !other_group && (time(mark) < o.last_barrier_ || time(mark) < o.simd_last_barrier_[simdgroup(mark)]);
  return {true, kind == &Cell::writer, other_group, unfenced, cell << shift_, group(mark), thread(mark), code};
}

}  // namespace mpsx::driver::host::simt
