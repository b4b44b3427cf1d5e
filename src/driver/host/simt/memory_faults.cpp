// The messages of faults.
#include <algorithm>

#include "driver/host/simt/format.h"
#include "driver/host/simt/memory_check.h"

namespace mpsx::driver::host::simt {
namespace {

std::string bytes_text(size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

// Returns an address inside the call instruction before a return address.
const void* call_before(const void* return_address) { return static_cast<const char*>(return_address) - 1; }

}  // namespace

const Arena::Variable* MemoryCheck::nearest_variable(size_t offset) const {
  const auto distance = [&](const Arena::Variable& v) {
    return offset < v.offset ? v.offset - offset : offset - std::min(offset, v.offset + v.bytes);
  };
  const Arena::Variable* best = nullptr;
  for (const auto& v : worker_->arena().variables())
    if (v.name && (!best || distance(v) < distance(*best))) best = &v;
  return best;
}

void MemoryCheck::fail_suspect() {
  fail(write_.device ? device_race("write", write_.device, write_.region, write_.bytes)
                     : wrong("write", write_.finding, write_.bytes, write_.thread),
       write_.code, write_.thread, write_.site);
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

std::string MemoryCheck::misaligned(const char* verb, const void* p, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(p);
  std::string where;
  if (const auto* v = in_threadgroup_memory(at) ? nearest_variable(at - arena_begin_) : nullptr)
    where = format(" at byte %zu of threadgroup memory '%s'", at - arena_begin_ - v->offset, v->name);
  for (const Region& r : regions_)
    if (where.empty() && r.kind <= Kind::bytes && r.holds(at, bytes))
      where = format(" at byte %zu of buffer %u", size_t(at - r.begin), r.index);
  return format("misaligned %s of %zu bytes%s: the address %p is not a multiple of %zu", verb, bytes, where.c_str(), p,
                bytes);
}

std::string MemoryCheck::wrong(const char* verb, const Shadow::Finding& finding, size_t bytes, unsigned thread) const {
  using Fault = Shadow::Fault;
  const auto* v = nearest_variable(finding.offset);
  const std::string access = format("%s of %s at byte %zu of threadgroup memory '%s'", verb, bytes_text(bytes).c_str(),
                                    v ? finding.offset - v->offset : finding.offset, v ? v->name : "?");
  if (finding.fault == Fault::uninitialized)
    return "uninitialized memory: " + access + ", which no thread of the threadgroup has written";
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

std::string MemoryCheck::device_race(const char* verb, const DeviceShadow::Finding& finding, const Region& region,
                                     size_t bytes) const {
  const Job& job = worker_->job();
  const mpsx_launch& l = job.launch;
  const unsigned group[3] = {finding.group % l.groups[0], finding.group / l.groups[0] % l.groups[1],
                             finding.group / l.groups[0] / l.groups[1]};
  // A threadgroup at the end of the grid may be smaller.
  const unsigned width = std::min(l.group[0], l.threads[0] - group[0] * l.group[0]);
  const unsigned height = std::min(l.group[1], l.threads[1] - group[1] * l.group[1]);
  const bool indirect = region.kind == Kind::indirect;
  const uintptr_t begin = indirect ? region.begin : reinterpret_cast<uintptr_t>(job.args[region.index]);
  const auto at = (long long)(region.shadow->address(finding.offset) - begin);
  const std::string buffer = indirect ? "memory that an argument points to" : format("buffer %u", region.index);
  const unsigned t = finding.thread;
  std::string what = format("race: %s of %s at byte %lld of %s (element %lld), which ", verb, bytes_text(bytes).c_str(),
                            at, buffer.c_str(), at / (long long)bytes);
  what += format("thread (%u, %u, %u) of threadgroup (%u, %u, %u) %s", t % width, t / width % height,
                 t / width / height, group[0], group[1], group[2], finding.wrote ? "wrote" : "read");
  const SourceLine other = source_line(call_before(library_.begin + (finding.code - 1)));
  if (other.file) what += format(" at %s:%d", other.file, other.line);
  if (finding.other_group) return what + "; nothing orders the threadgroups of a dispatch";
  return what +
         (finding.unfenced ? "; the barrier in between lacks mem_flags::mem_device" : " with no barrier in between");
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
  worker->fault(format("out-of-bounds index %lld of an array of type %s", index, written_type(type).c_str()), s.file,
                s.line);
}

}  // namespace mpsx::driver::host::simt
