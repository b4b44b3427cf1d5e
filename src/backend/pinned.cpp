#include "backend/pinned.h"

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/device.h"

namespace mpsx::backend {
namespace {

struct Ranges {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;
  at::HostStats stats;
};

Ranges& ranges() {
  static auto* r = new Ranges();
  return *r;
}

void release(void* context) {
  auto* inner = static_cast<c10::DataPtr*>(context);
  auto& r = ranges();
  {
    std::lock_guard lock(r.mutex);
    auto it = r.sizes.find(reinterpret_cast<uintptr_t>(inner->get()));
    if (it != r.sizes.end()) {
      r.stats.active_bytes.decrease(it->second);
      r.stats.allocated_bytes.decrease(it->second);
      r.stats.active_requests.decrease(1);
      r.stats.allocations.decrease(1);
      r.sizes.erase(it);
    }
  }
  delete inner;
}

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* inner = new c10::DataPtr(c10::GetCPUAllocator()->allocate(bytes));
    void* p = inner->get();
    if (p) {
      auto& r = ranges();
      std::lock_guard lock(r.mutex);
      r.sizes[reinterpret_cast<uintptr_t>(p)] = bytes;
      r.stats.active_bytes.increase(bytes);
      r.stats.allocated_bytes.increase(bytes);
      r.stats.active_requests.increase(1);
      r.stats.allocations.increase(1);
    }
    return {p, inner, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    std::lock_guard lock(ranges().mutex);
    return ranges().stats;
  }
  void reset_accumulated_stats() override {
    each_stat([](auto& s) { s.reset_accumulated(); });
  }
  void reset_peak_stats() override {
    each_stat([](auto& s) { s.reset_peak(); });
  }

 private:
  template <typename F>
  static void each_stat(F f) {
    auto& r = ranges();
    std::lock_guard lock(r.mutex);
    for (auto* s : {&r.stats.active_bytes, &r.stats.allocated_bytes, &r.stats.active_requests, &r.stats.allocations})
      f(*s);
  }
};

PinnedAllocator* instance() {
  static auto* allocator = new PinnedAllocator();
  return allocator;
}

}  // namespace

c10::Allocator* pinned_allocator() { return instance(); }

bool is_pinned(const void* p) {
  auto& r = ranges();
  {
    std::lock_guard lock(r.mutex);
    auto it = r.sizes.upper_bound(reinterpret_cast<uintptr_t>(p));
    if (it != r.sizes.begin()) {
      --it;
      if (reinterpret_cast<uintptr_t>(p) < it->first + std::max<size_t>(it->second, 1)) return true;
    }
  }
  // If PyTorch was built with CUDA, torch.empty(pin_memory=True) uses CUDA's pinned memory.
  return at::globalContext().hasCUDA() && at::detail::getCUDAHooks().isPinnedPtr(p);
}

void register_pinned_allocator() { at::setHostAllocator(kDeviceType, instance()); }

}  // namespace mpsx::backend
