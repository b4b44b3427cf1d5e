#include "runtime/arena.h"

#include <algorithm>
#include <iterator>

namespace mpsx::runtime {

Arena::Span& Arena::span_of(const char* p) { return std::prev(spans_.upper_bound(p))->second; }

void Arena::insert(char* begin, size_t bytes) {
  free_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
}

void Arena::erase(std::map<char*, size_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

void* Arena::take(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, nullptr});
  if (found == by_size_.end()) return nullptr;
  const auto [size, begin] = *found;
  erase(free_.find(begin));
  if (size > bytes) insert(begin + bytes, size - bytes);

  Span& span = span_of(begin);
  const size_t offset = size_t(begin - static_cast<char*>(span.buffer.contents));
  for (size_t unit = offset / kUnit; unit * kUnit < offset + bytes; ++unit) {
    if (span.held[unit]) continue;
    span.held[unit] = true;
    held_ += kUnit;
  }
  return begin;
}

void Arena::give(void* range, size_t bytes) {
  char* begin = static_cast<char*>(range);
  // Spans may be adjacent by chance, but a range never crosses them.
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
    held_ -= size_t(std::ranges::count(span.held, true)) * kUnit;
    removed.push_back(span.buffer);
    return true;
  });
  return removed;
}

void Arena::trim(size_t bytes, driver::Driver& driver) {
  const size_t least = held_ > bytes ? held_ - bytes : 0;
  for (auto range = by_size_.rbegin(); range != by_size_.rend() && held_ > least; ++range) {
    const auto [size, begin] = *range;
    Span& span = span_of(begin);
    char* const base = static_cast<char*>(span.buffer.contents);
    const size_t offset = size_t(begin - base);
    const size_t first = (offset + kUnit - 1) / kUnit;
    // The last unit of a span may be partial.
    const size_t last = offset + size == span.buffer.size ? span.held.size() : (offset + size) / kUnit;
    // From the end, because take() hands out the front first.
    for (size_t end = last; end > first && held_ > least;) {
      size_t start = end;
      while (start > first && span.held[start - 1] && held_ > least) {
        span.held[--start] = false;
        held_ -= kUnit;
      }
      if (start < end) driver.discard(base + start * kUnit, std::min(end * kUnit, span.buffer.size) - start * kUnit);
      end = start < end ? start : end - 1;
    }
  }
}

}  // namespace mpsx::runtime
