#include "driver/host/simt/memory_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mpsx::driver::host::simt {
namespace {

constexpr size_t kMaxConstantBytes = 32;  // each value occupies as much memory as a long4

// The shadow memory is reused for all dispatches of this thread, because it is large and need not be cleared.
Shadow& shadow_of_this_thread() {
  thread_local Shadow shadow(Arena::kCapacity);
  return shadow;
}

}  // namespace

std::unique_ptr<Monitor> make_memory_check() { return std::make_unique<MemoryCheck>(); }

MemoryCheck::MemoryCheck() : shadow_(&shadow_of_this_thread()) {}

void MemoryCheck::begin_group(Worker& worker) {
  if (worker_ != &worker) {
    worker_ = &worker;
    arena_begin_ = reinterpret_cast<uintptr_t>(worker.arena().begin());
    arena_size_ = arena_size();
    library_ = image_of(reinterpret_cast<const void*>(worker.job().record->thread_entry));
    find_memory();
  }
  shadow_->begin_group();
  const unsigned *groups = worker.job().launch.groups, *group = worker.group().position;
  order_.begin_group((group[2] * groups[1] + group[1]) * groups[0] + group[0]);
  spin_ = {};
  half_aligned_ = {};
}

void MemoryCheck::end_group(Worker&) {
  if (suspect_) check_suspect();
}

void MemoryCheck::threadgroup_barrier(Worker&, const Site& site) {
  if (suspect_) check_suspect();
  shadow_->threadgroup_barrier(site.flags & MPSX_MEM_THREADGROUP);
  order_.threadgroup_barrier(site.flags & MPSX_MEM_DEVICE);
}

void MemoryCheck::simdgroup_barrier(Worker&, unsigned simdgroup, const Site& site) {
  if (suspect_) check_suspect();
  shadow_->simdgroup_barrier(simdgroup, site.flags & MPSX_MEM_THREADGROUP);
  order_.simdgroup_barrier(simdgroup, site.flags & MPSX_MEM_DEVICE);
}

void MemoryCheck::add(const void* begin, size_t size, Kind kind, uint8_t index, bool writable) {
  regions_.push_back({reinterpret_cast<uintptr_t>(begin), size, kind, index, writable});
}

void MemoryCheck::find_memory() {
  const Job& job = worker_->job();
  uint8_t index = 0;
  for (size_t i = 0; i < job.argument_count; ++i) {
    const Argument& a = job.arguments[i];
    if (a.kind == Argument::Kind::threadgroup) continue;
    if (a.kind == Argument::Kind::bytes) {
      add(a.data, a.size, Kind::bytes, index);
    } else if (a.data) {
      const char* const base = static_cast<const char*>(a.data);
      const Extent extent = allocations().find(base + a.size);
      const char *begin = extent.begin, *end = begin + extent.size;
      if (a.end != SIZE_MAX) begin = std::max(begin, base + a.begin), end = std::min(end, base + a.end);
      if (extent.begin)
        add(begin, size_t(end - begin), Kind::buffer, index, a.access == Access::write);
      else
        unknown_ = true;
    }
    ++index;
  }
  add(&job, sizeof job, Kind::engine);
  // Before version 20, clang also instruments reads of function constants, despite MPSX_UNCHECKED_SPACE
  // (metal_stdlib/launch.h).
  if (const void* const* constants = job.launch.constants) {
    add(constants, std::max(job.record->constant_count, 1u) * sizeof *constants, Kind::engine);
    for (unsigned i = 0; i < job.record->constant_count; ++i)
      if (constants[i]) add(constants[i], kMaxConstantBytes, Kind::engine);
  }
  add(worker_, sizeof *worker_, Kind::engine);
  add(library_.begin, library_.size, Kind::library);
  for (const Region& r : regions_)
    if (r.kind == Kind::buffer && r.writable && !shadow_at(r.begin))
      if (const Extent whole = allocations().find(reinterpret_cast<const void*>(r.begin)); whole.begin)
        shadows_.emplace_back(whole.begin, whole.size);
  for (Region& r : regions_)
    if (r.kind == Kind::buffer) r.shadow = shadow_at(r.begin);
}

DeviceShadow* MemoryCheck::shadow_at(uintptr_t at) {
  const auto found = std::find_if(shadows_.begin(), shadows_.end(), [&](const auto& s) { return s.holds(at); });
  return found == shadows_.end() ? nullptr : &*found;
}

// Returns the region that contains the address. If there is none, returns null.
const MemoryCheck::Region* MemoryCheck::find_region(Access access, uintptr_t at, size_t bytes) {
  const auto holds = [&](const Region& r) { return r.holds(at, bytes) && (access == Access::read || r.writable); };
  auto found = std::find_if(regions_.begin(), regions_.end(), holds);
  if (found == regions_.end()) {
    if (worker_->is_shared(reinterpret_cast<const void*>(at)) || !in_indirect(at, bytes)) return nullptr;
    found = regions_.end() - 1;
  }
  Region& last = last_region_[size_t(access)];
  previous_region_[size_t(access)] = std::exchange(last, *found);
  return &last;
}

// Returns whether the access is to a thread_local variable of the kernel's library, for example a function constant.
bool MemoryCheck::in_thread_local(uintptr_t at, size_t bytes) {
  if (!library_.thread_begin) {
    library_ = image_of(library_.begin);
    if (library_.thread_begin) add(library_.thread_begin, library_.thread_size, Kind::library);
  }
  return at - reinterpret_cast<uintptr_t>(library_.thread_begin) < library_.thread_size &&
         library_.thread_size - (at - reinterpret_cast<uintptr_t>(library_.thread_begin)) >= bytes;
}

// Returns whether the access is to an allocation that is reached through a pointer in an argument. Argument buffers and
// buffer tables contain such pointers.
bool MemoryCheck::in_indirect(uintptr_t at, size_t bytes) {
  constexpr size_t kMaxSearched = size_t(64) << 10;  // tables of pointers usually start within this many bytes
  const Extent to = allocations().find(reinterpret_cast<const void*>(at));
  const auto begin = reinterpret_cast<uintptr_t>(to.begin);
  if (!to.begin || at - begin >= to.size || to.size - (at - begin) < bytes) return false;
  for (const Region& r : regions_) {
    if (r.kind > Kind::indirect) continue;
    const auto* memory = reinterpret_cast<const char*>(r.begin);
    for (size_t i = 0; i + sizeof(uintptr_t) <= std::min(r.size, kMaxSearched); i += sizeof(uintptr_t)) {
      uintptr_t pointer;
      std::memcpy(&pointer, memory + i, sizeof pointer);
      if (pointer - begin > to.size) continue;
      DeviceShadow* const known = shadow_at(begin);
      add(to.begin, to.size, Kind::indirect);
      regions_.back().shadow = known ? known : &shadows_.emplace_back(to.begin, to.size);
      return true;
    }
  }
  return false;
}

// Not inlined, to reduce register pressure in check().
template <Access access>
[[gnu::noinline]] void MemoryCheck::check_recent(const void* p, size_t bytes, const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const size_t offset = at - last_begin_;
  if (offset < last_size_ && last_size_ - offset >= bytes) {
    const unsigned thread = worker_->thread_index();
    const size_t arena_offset = at - arena_begin_;
    if (access == Access::read ? shadow_->try_read(arena_offset, bytes, thread, short_code(code))
                               : shadow_->try_write(arena_offset, bytes, thread, short_code(code)))
      return;
  } else if (Region& r = previous_region_[size_t(access)]; r.holds(at, bytes)) {
    std::swap(r, last_region_[size_t(access)]);
    if (const Region& last = last_region_[size_t(access)]; last.shadow)
      check_device(access, false, last, p, bytes, code);
    return;
  }
  check_slow(access, false, p, bytes, code);
}

[[gnu::noinline]] void MemoryCheck::check_slow(Access access, bool atomic, const void* p, size_t bytes,
                                               const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const char* const verb = access == Access::read ? "read" : "write";
  if (bytes == 0 || worker_->on_own_stack(p)) return;
  const unsigned thread = worker_->thread_index();
  if (!in_threadgroup_memory(at)) {
    const Region* region = find_region(access, at, bytes);
    if (region && region->shadow) return check_device(access, atomic, *region, p, bytes, code);
    if (!region && !unknown_ && !worker_->is_shared(p) && !in_thread_local(at, bytes))
      fail(out_of_bounds(verb, p, bytes), code, thread);
    return;
  }
  const size_t offset = at - arena_begin_;
  if (!variable_at(offset, bytes)) fail(out_of_variable(verb, offset, bytes), code, thread);
  if (access == Access::read) {
    if (const auto finding = shadow_->read(offset, bytes, thread, short_code(code)))
      fail(wrong("read", finding, bytes, thread), code, thread);
    return;
  }
  const auto finding = shadow_->write(offset, bytes, thread, short_code(code));
  if (!finding) return;
  suspect_write({static_cast<const char*>(p), bytes, thread, code, finding, {}, {}, site(), {}});
}

[[gnu::noinline]] void MemoryCheck::check_device(Access access, bool atomic, const Region& region, const void* p,
                                                 size_t bytes, const void* code) {
  const unsigned thread = worker_->thread_index();
  const bool stores = access == Access::write;
  const auto finding =
      region.shadow->access(order_, reinterpret_cast<uintptr_t>(p), bytes, stores, atomic, thread, short_code(code));
  if (!finding) [[likely]]
    return;
  if (stores && !atomic)
    suspect_write({static_cast<const char*>(p), bytes, thread, code, {}, finding, region, site(), {}});
  else
    fail(device_race(!atomic  ? "read"
                     : stores ? "atomic update"
                              : "atomic load",
                     finding, region, bytes),
         code, thread);
}

void MemoryCheck::suspect_write(const Suspect& write) {
  suspect_ = true;
  write_ = write;
  std::memcpy(write_.before, write.p, std::min(write.bytes, Suspect::kBytes));
  if (write.bytes > Suspect::kBytes) fail_suspect();
}

void MemoryCheck::allow_races(const void* p) {
  const Region* const region = find_region(Access::read, reinterpret_cast<uintptr_t>(p), 1);
  if (region && region->shadow) region->shadow->allow_races();
}

void MemoryCheck::check_atomic(const void* p, size_t bytes, bool loads, bool stores, const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const unsigned thread = worker_->thread_index();
  if (suspect_) check_suspect();
  if (!in_threadgroup_memory(at)) {
    check_slow(stores ? Access::write : Access::read, true, p, bytes, code);
    return count_spins(p, bytes, thread, code);
  }
  const size_t offset = at - arena_begin_;
  const char* const verb = stores ? "atomic update" : "atomic load";
  if (!variable_at(offset, bytes)) fail(out_of_variable(verb, offset, bytes), code, thread);
  if (const auto finding = shadow_->atomic(offset, bytes, thread, short_code(code), loads, stores))
    fail(wrong(verb, finding, bytes, thread), code, thread);
  count_spins(p, bytes, thread, code);
}

[[gnu::noinline]] void MemoryCheck::check_misaligned(Access access, const void* p, size_t bytes, const void* code) {
  access == Access::read ? check<Access::read>(p, bytes, code) : check<Access::write>(p, bytes, code);
  const unsigned thread = worker_->thread_index();
  if (bytes == 16 && reinterpret_cast<uintptr_t>(p) % 8 == 0) {
    half_aligned_ = {access, p, code, thread};
    return;
  }
  fail(misaligned(access == Access::read ? "read" : "write", p, bytes), code, thread);
}

// The address is null, because x86-64 CPUs do not report the address of a misaligned access.
void MemoryCheck::memory_signal(Worker& worker, const void* address) {
  const HalfAligned& last = half_aligned_;
  if (!address && last.p && last.thread == worker.thread_index())
    fail(misaligned(last.access == Access::read ? "read" : "write", last.p, 16), last.code, last.thread);
}

// A fiber runs until it waits at a barrier or in a SIMD function. A GPU may schedule threads in the same way. A loop
// that polls for a write by a different thread might therefore never end.
void MemoryCheck::count_spins(const void* p, size_t bytes, unsigned thread, const void* code) {
  uint64_t value = 0;
  std::memcpy(&value, p, std::min(bytes, sizeof value));
  if (p != spin_.p || thread != spin_.thread || value != spin_.value) spin_ = {p, value, thread, 0};
  if (++spin_.times == kMaxSpins)
    fail("a thread waits in a loop for another thread, which need not run: " + std::to_string(kMaxSpins) +
             " atomic accesses without a change",
         code, thread);
}

void MemoryCheck::check_suspect() {
  suspect_ = false;
  if (std::memcmp(write_.p, write_.before, write_.bytes) != 0) fail_suspect();
}

const Arena::Variable* MemoryCheck::variable_at(size_t offset, size_t bytes) {
  const auto holds = [&](const Arena::Variable& v) {
    return v.name && offset - v.offset < v.bytes && v.bytes - (offset - v.offset) >= bytes;
  };
  for (const auto& v : worker_->arena().variables()) {
    if (!holds(v)) continue;
    last_begin_ = arena_begin_ + v.offset;
    last_size_ = v.bytes;
    return &v;
  }
  return nullptr;
}

void check_read(const void* p, unsigned long bytes, const void* code) {
  if (auto* c = MemoryCheck::here()) c->check<Access::read>(p, bytes, code);
}
void check_write(const void* p, unsigned long bytes, const void* code) {
  if (auto* c = MemoryCheck::here()) c->check<Access::write>(p, bytes, code);
}
void check_misaligned(const void* p, unsigned long bytes, unsigned writes, const void* code) {
  if (auto* c = MemoryCheck::here()) c->check_misaligned(writes ? Access::write : Access::read, p, bytes, code);
}
void check_atomic(const void* p, unsigned long bytes, unsigned access, const void* code) {
  auto* c = MemoryCheck::here();
  if (!c) return;
  if (access == MPSX_ALLOWS_RACES)
    c->allow_races(p);
  else if (access == MPSX_DEVICE_FENCE)
    c->device_fence();
  else
    c->check_atomic(p, bytes, access & MPSX_ATOMIC_LOADS, access & MPSX_ATOMIC_STORES, code);
}

}  // namespace mpsx::driver::host::simt
