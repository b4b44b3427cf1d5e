#include "driver/host/simt/shadow.h"

#include <algorithm>

namespace mpsx::driver::host::simt {

void Shadow::begin_group() {
  tick();
  group_start_ = last_fence_ = last_barrier_ = now_;
}

void Shadow::threadgroup_barrier(bool fences) {
  tick();
  last_barrier_ = now_;
  if (fences) last_fence_ = now_;
}

void Shadow::simdgroup_barrier(unsigned simdgroup, bool fences) {
  tick();
  simd_last_barrier_[simdgroup] = now_;
  if (fences) simd_last_fence_[simdgroup] = now_;
}

void Shadow::tick() {
  if (++now_ == kTimes - 1) renumber();
}

// Called when the time counter overflows. Treats all earlier writes as if they came before the last barrier, so races
// across this point are not detected.
void Shadow::renumber() {
  for (Cell& c : cells_) c = {current(c.writer) ? 1u << kTimeShift | thread(c.writer) : 0, 0};
  group_start_ = 1;
  now_ = last_fence_ = last_barrier_ = 2;
  simd_last_fence_ = simd_last_barrier_ = {};
}

Shadow::Finding Shadow::found(Fault fault, size_t offset, uint32_t mark, bool by_writer) const {
  const unsigned other = thread(mark);
  const Code& code = codes_[offset / 4];
  return {fault, offset, other, by_writer ? code.writer : code.reader,
          time(mark) < last_barrier_ || time(mark) < simd_last_barrier_[other / MPSX_SIMD_WIDTH]};
}

// Copying a struct also copies its padding, which is never written. So a few unwritten bytes in a larger value are not
// a fault. The last 8 of 16 bytes may be the end of a float3 that is copied in two parts.
bool Shadow::partly_uninitialized(size_t offset, size_t bytes, size_t* first) const {
  const bool end_of_three = bytes == 8 && offset % 16 == 8;
  const size_t unit = bytes > 8 || end_of_three ? std::min<size_t>(bytes, 16) : std::max<size_t>(bytes / 2, 1);
  for (size_t at = offset; at + unit <= offset + bytes; at += unit) {
    size_t i = 0;
    while (i < unit && !current(cells_[at + i].writer)) ++i;
    *first = at;
    if (i == unit) return true;
  }
  return false;
}

Shadow::Finding Shadow::read(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Finding finding;
  bool unwritten = false;
  Cell last{~0u, ~0u};
  uint32_t reader = 0;
  for (size_t i = offset; i < offset + bytes; ++i) {
    Cell& c = cells_[i];
    if (c.writer != last.writer || c.reader != last.reader) {
      last = c;
      if (!current(c.writer))
        unwritten = true;
      else if (!finding && !writer_ordered(c.writer, thread_))
        finding = found(Fault::read_after_write, i, c.writer, true);
      const bool alone = !current(c.reader) || reader_ordered(c.reader, thread_);
      reader = mark(thread_, alone ? kOne : merged_sharers(c.reader, thread_, Sharers(sharers(c.reader))));
    }
    c.reader = reader;
  }
  for (size_t i = offset / 4; i <= (offset + bytes - 1) / 4; ++i) codes_[i].reader = code;
  size_t first = 0;
  if (!finding && unwritten && partly_uninitialized(offset, bytes, &first)) finding = {Fault::uninitialized, first};
  return finding;
}

Shadow::Finding Shadow::write(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Finding finding;
  Cell last{~0u, ~0u};
  for (size_t i = offset; i < offset + bytes; ++i) {
    Cell& c = cells_[i];
    if (!finding && (c.writer != last.writer || c.reader != last.reader)) {
      last = c;
      if (current(c.writer) && !writer_ordered(c.writer, thread_))
        finding = found(Fault::write_after_write, i, c.writer, true);
      else if (current(c.reader) && !reader_ordered(c.reader, thread_))
        finding = found(Fault::write_after_read, i, c.reader, false);
    }
    c.writer = mark(thread_, kPlain);
  }
  for (size_t i = offset / 4; i <= (offset + bytes - 1) / 4; ++i) codes_[i].writer = code;
  return finding;
}

Shadow::Finding Shadow::atomic(size_t offset, size_t bytes, unsigned thread_, uint32_t code, bool loads, bool stores) {
  Finding finding;
  for (size_t i = offset; i < offset + bytes; ++i) {
    Cell& c = cells_[i];
    const bool written = current(c.writer), before = !written || writer_ordered(c.writer, thread_);
    if (!finding) {
      if (!before && sharers(c.writer) == kPlain)
        finding = found(loads ? Fault::read_after_write : Fault::write_after_write, i, c.writer, true);
      else if (stores && current(c.reader) && !reader_ordered(c.reader, thread_))
        finding = found(Fault::write_after_read, i, c.reader, false);
      else if (loads && !written)
        finding = {Fault::uninitialized, i};
    }
    if (!stores) continue;
    const bool alone = before || sharers(c.writer) == kPlain;
    c.writer = mark(
        thread_,
        kAtomic + (alone ? uint32_t(kOne) : merged_sharers(c.writer, thread_, Sharers(sharers(c.writer) - kAtomic))));
  }
  if (stores)
    for (size_t i = offset / 4; i <= (offset + bytes - 1) / 4; ++i) codes_[i].writer = code;
  return finding;
}

}  // namespace mpsx::driver::host::simt
