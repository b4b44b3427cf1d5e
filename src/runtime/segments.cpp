#include "runtime/segments.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>

#include "runtime/device.h"

namespace mpsx::runtime {

void Segments::add(const driver::Buffer& buffer, size_t block_bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  const auto [at, is_new] = segments_.try_emplace(buffer.contents, buffer, block_bytes);
  if (!is_new) ++at->second.owners;
}

void Segments::remove(const driver::Buffer& buffer) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  const auto it = segments_.find(buffer.contents);
  if (--it->second.owners > 0) return;
  removals_.fetch_add(1, std::memory_order_release);
  segments_.erase(it);
}

std::pair<const Segments::Segment*, size_t> Segments::find(const void* p) const {
  auto it = segments_.upper_bound(p);
  if (it == segments_.begin()) return {nullptr, 0};
  const Segment& s = std::prev(it)->second;
  const size_t offset = size_t(static_cast<const char*>(p) - static_cast<const char*>(s.buffer.contents));
  return {offset < s.buffer.size ? &s : nullptr, offset};
}

const Segments::Segment& Segments::find_used(const void* p) const {
  // The segments that this thread has found since the last removal, by their address.
  struct Found {
    uintptr_t begin;
    size_t size;
    const Segment* segment;
  };
  static thread_local constinit std::array<Found, 512> cache{};
  static thread_local constinit uint64_t valid_for = 0;
  const uint64_t removals = removals_.load(std::memory_order_acquire);
  if (valid_for != removals) {
    cache.fill({});
    valid_for = removals;
  }
  const auto address = reinterpret_cast<uintptr_t>(p);
  // Buffers may be aligned to megabytes, so mix all bits of the address (Fibonacci hashing).
  Found& found = cache[((address >> 12) * 0x9e3779b97f4a7c15u >> 32) % cache.size()];
  if (address - found.begin < found.size) return *found.segment;
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const Segment* const segment = find(p).first;
  TORCH_CHECK(segment, "mpsx: expected device memory as a kernel argument, got CPU memory");
  found = {reinterpret_cast<uintptr_t>(segment->buffer.contents), segment->buffer.size, segment};
  return *segment;
}

Location Segments::locate(const void* p) const {
  const Segment* const segment = &find_used(p);
  const size_t offset = size_t(static_cast<const char*>(p) - static_cast<const char*>(segment->buffer.contents));
  const size_t block = offset / segment->block_bytes, begin = block * segment->block_bytes;
  const size_t bytes = std::min(segment->block_bytes, segment->buffer.size - begin);
  if (segment->accessed_by_cpu[block].load(std::memory_order_relaxed) &&
      segment->accessed_by_cpu[block].exchange(false)) {
    driver().prefetch(static_cast<char*>(segment->buffer.contents) + begin, bytes);
  }
  return {segment->buffer.handle, offset, segment->last_use_seq(offset), begin, begin + bytes};
}

uint64_t Segments::last_use_seq(const void* p) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto [segment, offset] = find(p);
  return segment ? segment->last_use_seq(offset)->load(std::memory_order_acquire) : 0;
}

void Segments::note_cpu_access(const void* p) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto [segment, offset] = find(p);
  if (segment) segment->accessed_by_cpu[offset / segment->block_bytes].store(true, std::memory_order_relaxed);
}

}  // namespace mpsx::runtime
