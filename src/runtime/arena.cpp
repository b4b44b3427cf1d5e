#include "runtime/arena.h"

#include <algorithm>
#include <iterator>

namespace mpsx::runtime {

Arena::Span& Arena::span_containing(const char* p) { return std::prev(spans_.upper_bound(p))->second; }

void Arena::insert(char* begin, size_t bytes) {
  free_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
}

void Arena::erase(std::map<char*, size_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

void* Arena::allocate(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  const auto [size, begin] = *found;
  erase(free_.find(begin));
  if (size > bytes) insert(begin + bytes, size - bytes);

  Span& span = span_containing(begin);
  const size_t offset = size_t(begin - static_cast<char*>(span.buffer.contents));
  for (size_t unit = offset / kUnit; unit * kUnit < offset + bytes; ++unit) {
    if (span.resident[unit]) continue;
    span.resident[unit] = true;
    resident_bytes_ += kUnit;
  }
  return begin;
}

void Arena::free(void* range, size_t bytes) {
  char* begin = static_cast<char*>(range);
  // Two spans may happen to be adjacent, but a free range must not cross the boundary between them.
  if (const auto next = free_.find(begin + bytes); next != free_.end() && !spans_.contains(next->first)) {
    bytes += next->second;
    erase(next);
  }
  if (const auto next = free_.lower_bound(begin); next != free_.begin() && !spans_.contains(begin)) {
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  insert(begin, bytes);
}

void Arena::add(const driver::Buffer& buffer) {
  char* const begin = static_cast<char*>(buffer.contents);
  spans_.emplace(begin, Span{buffer, std::vector<bool>((buffer.size + kUnit - 1) / kUnit)});
  insert(begin, buffer.size);
}

std::vector<driver::Buffer> Arena::remove_empty() {
  std::vector<driver::Buffer> removed;
  std::erase_if(spans_, [&](const auto& entry) {
    const Span& span = entry.second;
    const auto range = free_.find(static_cast<char*>(span.buffer.contents));
    if (range == free_.end() || range->second != span.buffer.size) return false;
    erase(range);
    resident_bytes_ -= size_t(std::ranges::count(span.resident, true)) * kUnit;
    removed.push_back(span.buffer);
    return true;
  });
  return removed;
}

void Arena::trim(size_t bytes, driver::Driver& driver) {
  const size_t target = resident_bytes_ > bytes ? resident_bytes_ - bytes : 0;
  for (auto range = by_size_.rbegin(); range != by_size_.rend() && resident_bytes_ > target; ++range) {
    const auto [size, begin] = *range;
    Span& span = span_containing(begin);
    char* const base = static_cast<char*>(span.buffer.contents);
    const size_t offset = size_t(begin - base);
    const size_t first = (offset + kUnit - 1) / kUnit;
    // The last unit of a span may be incomplete.
    const size_t last = offset + size == span.buffer.size ? span.resident.size() : (offset + size) / kUnit;
    // Discard pages from the end of the range, because allocate() uses the start of a range first.
    for (size_t end = last; end > first && resident_bytes_ > target;) {
      size_t start = end;
      while (start > first && span.resident[start - 1] && resident_bytes_ > target) {
        span.resident[--start] = false;
        resident_bytes_ -= kUnit;
      }
      if (start < end) driver.discard(base + start * kUnit, std::min(end * kUnit, span.buffer.size) - start * kUnit);
      end = start < end ? start : end - 1;
    }
  }
}

}  // namespace mpsx::runtime
