#include "driver/host/simt/memory_check.h"

#include <algorithm>
#include <cstdio>
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

template <typename... A>
std::string format(const char* pattern, A... a) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, a...);
  return text;
}

std::string bytes_text(size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

// Returns an address inside the call instruction before a return address.
const void* call_before(const void* return_address) { return static_cast<const char*>(return_address) - 1; }

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
  spin_ = {};
}

void MemoryCheck::end_group(Worker&) {
  if (suspect_) check_suspect();
}

void MemoryCheck::threadgroup_barrier(Worker&, const Site& site) {
  if (suspect_) check_suspect();
  shadow_->threadgroup_barrier(site.flags & MPSX_MEM_THREADGROUP);
}

void MemoryCheck::simdgroup_barrier(Worker&, unsigned simdgroup, const Site& site) {
  if (suspect_) check_suspect();
  shadow_->simdgroup_barrier(simdgroup, site.flags & MPSX_MEM_THREADGROUP);
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
}

bool MemoryCheck::in_memory(Access access, uintptr_t at, size_t bytes) {
  for (const Region& r : regions_) {
    if (!r.holds(at, bytes) || (access == Access::write && !r.writable)) continue;
    previous_region_[size_t(access)] = last_region_[size_t(access)];
    last_region_[size_t(access)] = r;
    return true;
  }
  return worker_->is_shared(reinterpret_cast<const void*>(at)) || in_indirect(at, bytes) || in_thread_local(at, bytes);
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
      add(to.begin, to.size, Kind::indirect);
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
    return;
  }
  check_slow(access, p, bytes, code);
}

[[gnu::noinline]] void MemoryCheck::check_slow(Access access, const void* p, size_t bytes, const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const char* const verb = access == Access::read ? "read" : "write";
  if (bytes == 0 || worker_->on_own_stack(p)) return;
  const unsigned thread = worker_->thread_index();
  if (!in_threadgroup_memory(at)) {
    if (!in_memory(access, at, bytes) && !unknown_) fail(out_of_bounds(verb, p, bytes), code, thread);
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
  if (bytes > Suspect::kBytes) fail(wrong("write", finding, bytes, thread), code, thread);
  write_ = {static_cast<const char*>(p), bytes, thread, code, finding, site(), {}};
  std::memcpy(write_.before, p, bytes);
  suspect_ = true;
}

void MemoryCheck::check_atomic(const void* p, size_t bytes, bool loads, bool stores, const void* code) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const unsigned thread = worker_->thread_index();
  if (!in_threadgroup_memory(at)) {
    stores ? check<Access::write>(p, bytes, code) : check<Access::read>(p, bytes, code);
    return count_spins(p, bytes, thread, code);
  }
  if (suspect_) check_suspect();
  const size_t offset = at - arena_begin_;
  const char* const verb = stores ? "atomic update" : "atomic load";
  if (!variable_at(offset, bytes)) fail(out_of_variable(verb, offset, bytes), code, thread);
  if (const auto finding = shadow_->atomic(offset, bytes, thread, short_code(code), loads, stores))
    fail(wrong(verb, finding, bytes, thread), code, thread);
  count_spins(p, bytes, thread, code);
}

// A fiber runs until it waits at a barrier or in a SIMD function. A GPU may schedule threads in the same way. A loop
// that polls for a write by a different thread might therefore never end.
void MemoryCheck::count_spins(const void* p, size_t bytes, unsigned thread, const void* code) {
  uint64_t value = 0;
  std::memcpy(&value, p, std::min(bytes, sizeof value));
  if (p != spin_.p || thread != spin_.thread || value != spin_.value) spin_ = {p, value, thread, 0};
  if (++spin_.times == kMaxSpins)
    fail(format("a thread waits in a loop for another thread, which need not run: %u atomic accesses without a change",
                kMaxSpins),
         code, thread);
}

void MemoryCheck::check_suspect() {
  suspect_ = false;
  if (std::memcmp(write_.p, write_.before, write_.bytes) != 0)
    fail(wrong("write", write_.finding, write_.bytes, write_.thread), write_.code, write_.thread, write_.site);
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

const Arena::Variable* MemoryCheck::nearest_variable(size_t offset) const {
  const auto distance = [&](const Arena::Variable& v) {
    return offset < v.offset ? v.offset - offset : offset - std::min(offset, v.offset + v.bytes);
  };
  const Arena::Variable* best = nullptr;
  for (const auto& v : worker_->arena().variables())
    if (v.name && (!best || distance(v) < distance(*best))) best = &v;
  return best;
}

void MemoryCheck::fail(std::string&& what, const void* code, unsigned thread, const SourceLine& site) {
  SourceLine s = source_line(call_before(code));
  if (!s.file) s = site;
  worker_->fault_of(thread, std::move(what), s.file, s.line);
}

std::string MemoryCheck::out_of_bounds(const char* verb, const void* p, size_t bytes) const {
  constexpr uintptr_t kFar = uintptr_t(1) << 32, kNullPage = 1 << 16;
  const auto at = reinterpret_cast<uintptr_t>(p);
  const auto distance = [&](const Region& r) {
    return at < r.begin ? r.begin - at : at - std::min(at, r.begin + r.size);
  };
  for (const Region& r : regions_)
    if (r.kind == Kind::buffer && !r.writable && r.holds(at, bytes))
      return format("%s of %s at byte %zu of buffer %u, which the launcher declared as read-only", verb,
                    bytes_text(bytes).c_str(), size_t(at - r.begin), r.index);
  const Region* best = nullptr;  // the argument whose memory is closest to the address
  for (const Region& r : regions_)
    if (r.kind <= Kind::indirect && (!best || distance(r) < distance(*best))) best = &r;
  const std::string what = "out-of-bounds " + std::string(verb) + " of " + bytes_text(bytes);
  if (at < kNullPage) return what + " at address " + std::to_string(at) + ": the argument is null";
  if (!best || distance(*best) >= kFar) return what + ": not in any argument";
  const std::string buffer =
      best->kind == Kind::indirect ? "memory that an argument points to" : format("buffer %u", best->index);
  return what + format(" at byte %lld of %s, which has %s", (long long)(at - best->begin), buffer.c_str(),
                       bytes_text(best->size).c_str());
}

std::string MemoryCheck::out_of_variable(const char* verb, size_t offset, size_t bytes) const {
  const std::string what = "out-of-bounds " + std::string(verb) + " of " + bytes_text(bytes);
  const auto* v = nearest_variable(offset);
  if (!v) return what + " of threadgroup memory";
  return what + format(" at byte %lld of threadgroup memory '%s', which has %s",
                       (long long)offset - (long long)v->offset, v->name, bytes_text(v->bytes).c_str());
}

std::string MemoryCheck::wrong(const char* verb, const Shadow::Finding& finding, size_t bytes, unsigned thread) const {
  using Fault = Shadow::Fault;
  const auto* v = nearest_variable(finding.offset);
  const std::string access = format("%s of %s at byte %zu of threadgroup memory '%s'", verb, bytes_text(bytes).c_str(),
                                    v ? finding.offset - v->offset : finding.offset, v ? v->name : "?");
  if (finding.fault == Fault::uninitialised)
    return "uninitialised memory: " + access + ", which no thread of the threadgroup has written";
  const SourceLine other = finding.code ? source_line(call_before(library_.begin + (finding.code - 1))) : SourceLine{};
  const unsigned* p = worker_->thread(finding.thread).local;
  // If several threads have accessed the memory, only the last one is known, and it may be this thread.
  std::string what = "race: " + access + ", which " +
                     (finding.thread == thread ? "other threads" : format("thread (%u, %u, %u)", p[0], p[1], p[2])) +
                     (finding.fault == Fault::write_after_read ? " read" : " wrote");
  if (other.file) what += format(" at %s:%d", other.file, other.line);
  return what + (finding.unfenced ? "; the barrier in between lacks mem_flags::mem_threadgroup"
                                  : " with no barrier in between");
}

void check_read(const void* p, unsigned long bytes, const void* code) {
  if (auto* c = MemoryCheck::here()) c->check<Access::read>(p, bytes, code);
}
void check_write(const void* p, unsigned long bytes, const void* code) {
  if (auto* c = MemoryCheck::here()) c->check<Access::write>(p, bytes, code);
}
void check_atomic(const void* p, unsigned long bytes, unsigned access, const void* code) {
  if (auto* c = MemoryCheck::here())
    c->check_atomic(p, bytes, access & MPSX_ATOMIC_LOADS, access & MPSX_ATOMIC_STORES, code);
}

// Returns the type as the user wrote it. Threadgroup variables have typedefs: "'mpsx_tg_0' (aka 'float[32]')".
std::string written_type(const std::string& type) {
  const size_t aka = type.find("(aka ");
  if (type.find("mpsx_tg_") == type.npos || aka == type.npos) return type;
  return type.substr(aka + 5, type.size() - aka - 6);
}

void array_index(const char* type, long long index, const char* file, int line, const void* code) {
  Worker* worker = Worker::active();
  if (!worker || !worker->job().strict) return;
  SourceLine s = source_line(call_before(code));
  if (!s.file) s = {file, line};
  worker->fault(format("out-of-bounds index %lld of an array of type %s", index, written_type(type).c_str()),
                s.file, s.line);
}

}  // namespace mpsx::driver::host::simt
