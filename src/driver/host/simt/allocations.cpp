#include "driver/host/simt/allocations.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

namespace mpsx::driver::host::simt {
namespace {

constexpr size_t kRedZone = size_t(256) << 10;
constexpr size_t kMaxFilled = size_t(4) << 20;  // filling the start of a large allocation with NaN is enough

size_t mapped(size_t bytes) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page + 2 * kRedZone;
}

}  // namespace

Allocations& allocations() {
  static auto* a = new Allocations;  // never destroyed, because tensors may outlive static objects
  return *a;
}

void* Allocations::allocate(size_t bytes) {
  if (bytes > size_t(1) << 62) return nullptr;
  void* p = mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* const memory = static_cast<char*>(p) + kRedZone;
  std::memset(memory, 0xff, std::min(bytes, kMaxFilled));
  std::unique_lock<std::shared_mutex> lock(mutex_);
  entries_.emplace(memory, Entry{bytes, true});
  return memory;
}

void Allocations::add(const void* memory, size_t bytes) {
  if (!memory || !bytes) return;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  entries_.emplace(static_cast<const char*>(memory), Entry{bytes, false});
  largest_external_ = std::max(largest_external_, bytes);
}

void Allocations::release(const void* memory, size_t bytes) noexcept {
  bool owned = false;
  {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    const auto [first, last] = entries_.equal_range(static_cast<const char*>(memory));
    const auto it = std::find_if(first, last, [&](const auto& e) { return e.second.size == bytes; });
    if (it == last) return;
    owned = it->second.owned;
    entries_.erase(it);
  }
  if (owned) munmap(const_cast<char*>(static_cast<const char*>(memory)) - kRedZone, mapped(bytes));
}

Extent Allocations::find(const void* address) const {
  const char* const p = static_cast<const char*>(address);
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Extent best;
  bool inside = false;  // whether `best` contains p, rather than ending at p
  for (auto it = entries_.upper_bound(p); it != entries_.begin();) {
    const auto& [begin, entry] = *--it;
    const auto distance = size_t(p - begin);
    const bool holds = distance < entry.size;
    if (holds ? !inside || entry.size > best.size : !best.begin && distance == entry.size) {
      best = {begin, entry.size};
      inside = holds;
    }
    if (entry.owned || distance > largest_external_) break;  // no earlier entry reaches this far
  }
  return best;
}

}  // namespace mpsx::driver::host::simt
