#include "runtime/launch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/allocator.h"
#include "runtime/dispatch.h"
#include "runtime/indirect_uses.h"
#include "runtime/launch_pause.h"
#include "runtime/launch_recording.h"
#include "runtime/launch_timer.h"
#include "runtime/profile.h"
#include "runtime/random_argument.h"
#include "runtime/stream.h"
#include "runtime/trace.h"

namespace mpsx::runtime {
namespace {

constexpr uint64_t kMaxGridAxis = 0xffffffffu;
constexpr uint32_t kMaxGroupDepth = 64;  // CUDA's limit along z

std::string describe(const driver::Dispatch& d) {
  auto size = [](const driver::Size& s) {
    return std::to_string(s.x) + "x" + std::to_string(s.y) + "x" + std::to_string(s.z);
  };
  return std::string(d.by_threads ? "threads " : "threadgroups ") + size(d.grid) + ", threads per threadgroup " +
         size(d.group);
}

thread_local const std::vector<std::atomic<uint64_t>*>* indirect_uses = nullptr;

}  // namespace

IndirectUses::IndirectUses() { indirect_uses = &last_use_seqs_; }
IndirectUses::~IndirectUses() { indirect_uses = nullptr; }

std::mutex& launch_mutex() {
  static auto* mutex = new std::mutex;  // never destroyed, because threads may launch kernels while the process exits
  return *mutex;
}

Launch& Launch::add(driver::Argument a) {
  TORCH_CHECK(count_ < arguments_.size(), entry_.name, ": more than ", arguments_.size(), " arguments");
  arguments_[count_++] = a;
  return *this;
}

Launch& Launch::pointer(const void* p, driver::Access access) {
  const Location l = is_planned_ ? Location{} : locate(p);
  if (l.last_use_seq && uses_ < last_use_seqs_.size()) last_use_seqs_[uses_++] = l.last_use_seq;
  if (LaunchRecording* const to = recording()) to->add_use(p, l);
  return add({driver::Argument::Kind::buffer, l.handle, l.offset, access, l.block_begin, l.block_end});
}

Launch& Launch::threadgroup_memory(size_t bytes) { return add({driver::Argument::Kind::threadgroup, nullptr, bytes}); }

Launch& Launch::threads(uint64_t x, uint64_t y, uint64_t z) {
  TORCH_CHECK(std::max({x, y, z}) <= kMaxGridAxis, entry_.name, ": a grid of ", x, "x", y, "x", z,
              " threads exceeds the limit of 2^32-1 per dimension");
  const uint32_t forced = driver().traits().threadgroup_size;
  const uint32_t limit = std::min<uint32_t>(entry_.kernel->max_threads, forced ? forced : 256);
  const uint32_t gx = uint32_t(std::clamp<uint64_t>(x, 1, limit));
  const uint32_t gy = uint32_t(std::clamp<uint64_t>(y, 1, std::max<uint32_t>(1, limit / gx)));
  const uint32_t gz = uint32_t(std::clamp<uint64_t>(z, 1, std::clamp<uint32_t>(limit / (gx * gy), 1, kMaxGroupDepth)));
  dispatch_.grid = {uint32_t(x), uint32_t(y), uint32_t(z)};
  dispatch_.group = {gx, gy, gz};
  dispatch_.by_threads = true;
  return *this;
}

Launch& Launch::over(uint64_t n, size_t element_size, uint64_t y, uint64_t z) {
  const uint64_t bytes = driver().traits().vector_bytes;
  if (bytes == 0) return threads(n, y, z);
  constexpr uint64_t per_thread = 4;  // in vectors, or in elements if element_size is 0
  const uint64_t width = element_size ? bytes / element_size : 1, vectors = (n + width - 1) / width;
  const uint64_t min_threads = element_size ? 4 : 32;  // minimum for short rows
  return threads(std::max((vectors + per_thread - 1) / per_thread, std::min(vectors, min_threads)), y, z);
}

Launch& Launch::threads_in_groups(driver::Size threads, driver::Size group) {
  const uint32_t limit = entry_.kernel->max_threads;
  TORCH_CHECK(group.count() >= 1 && group.count() <= limit, entry_.name, ": expected a threadgroup of 1 to ", limit,
              " threads, got ", group.x, "x", group.y, "x", group.z);
  dispatch_.grid = threads;
  dispatch_.group = group;
  dispatch_.by_threads = true;
  return *this;
}

Launch& Launch::groups(driver::Size grid, uint32_t per_group, bool exact) {
  const uint32_t limit = entry_.kernel->max_threads;
  TORCH_CHECK(!exact || per_group <= limit || driver().traits().one_thread_groups, entry_.name, ": needs ", per_group,
              " threads per threadgroup, but the limit is ", limit);
  if (const uint32_t forced = driver().traits().threadgroup_size; forced && !exact) per_group = forced;
  dispatch_.grid = grid;
  dispatch_.group = {std::clamp<uint32_t>(per_group, 1, limit), 1, 1};
  dispatch_.by_threads = false;
  return *this;
}

uint64_t dispatch(KernelEntry& entry, const driver::Argument* arguments, size_t count,
                  const driver::Dispatch& dispatch) {
  driver::Driver& driver = runtime::driver();
  const bool profiled = profiling.load(std::memory_order_relaxed), asynchronous = driver.traits().asynchronous;
  const bool timed = profiled && !asynchronous;
  const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  uint64_t seq = 0;
  try {
    const TraceScope traced(entry.name);
    driver::Stream* const stream = driver_stream(current_stream());
    std::optional<LaunchTimer> timer;
    if (profiled && asynchronous) timer.emplace(entry, stream);
    seq = driver.dispatch(stream, *entry.kernel, arguments, count, dispatch);
    if (timer) timer->stop();
  } catch (const driver::Error& e) {
    TORCH_CHECK(false, "mpsx: launch of ", entry.name, " failed (", describe(dispatch), "): ", e.what());
  }
  entry.launches.fetch_add(1, std::memory_order_relaxed);
  if (timed) {
    const auto ns = std::chrono::steady_clock::now() - start;
    entry.nanoseconds.fetch_add(uint64_t(std::chrono::nanoseconds(ns).count()), std::memory_order_relaxed);
  }
  if (logging.load(std::memory_order_relaxed)) log_launch(Route::native, entry.name);
  return seq;
}

void record_use(std::atomic<uint64_t>& last_use_seq, uint64_t seq) {
  uint64_t seen = last_use_seq.load(std::memory_order_relaxed);
  while (seen < seq && !last_use_seq.compare_exchange_weak(seen, seq, std::memory_order_release)) {
  }
}

void Launch::run() {
  if (dispatch_.grid.count() == 0) return note_random_argument(nullptr);
  if (is_planned_) return active_plan->push_back(entry_.name + " " + describe(dispatch_));
  std::unique_lock<std::mutex> unpaused;
  if (driver().traits().asynchronous) unpaused = std::unique_lock(launch_mutex());
  dispatch_.uses_other_memory = indirect_uses && !indirect_uses->empty();
  const uint64_t seq = dispatch(entry_, arguments_.data(), count_, dispatch_);
  for (size_t i = 0; i < uses_; ++i) record_use(*last_use_seqs_[i], seq);
  if (indirect_uses)
    for (std::atomic<uint64_t>* last_use_seq : *indirect_uses) record_use(*last_use_seq, seq);
  if (LaunchRecording* const to = recording()) to->add(entry_, {arguments_.data(), count_}, dispatch_);
}

uint32_t elements_per_thread(uint32_t gpu, uint32_t cpu) { return driver().traits().one_thread_groups ? cpu : gpu; }

uint32_t threads_for_row(uint64_t n) {
  const uint64_t wanted = (n + 3) / 4;  // about four elements per thread
  return uint32_t(std::clamp<uint64_t>((wanted + 31) / 32 * 32, 32, 1024));
}

int64_t target_resident_threads() {
  const driver::Traits& traits = driver().traits();
  return int64_t(traits.cores) * (traits.one_thread_groups ? 1 : 1024);
}

}  // namespace mpsx::runtime
