#include "driver/host/simt/dispatch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "driver/host/interrupt.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/memory_check.h"
#include "driver/host/simt/profile.h"
#include "driver/host/simt/profiled_kernels.h"

namespace mpsx::driver::host::simt {
namespace {

constexpr uint64_t kGrainThreads = 256;  // below, a second CPU core costs more than it gains

uint64_t number_from(const char* name, uint64_t limit) {
  const char* text = std::getenv(name);
  if (!text || !*text) return 0;
  char* end = nullptr;
  errno = 0;
  const uint64_t n = std::strtoull(text, &end, 10);
  if (*end || errno || *text == '-' || n == 0 || n > limit)
    throw Error(std::string(name) + ": expected a number from 1 to " + std::to_string(limit) + ", got \"" + text +
                "\"");
  return n;
}

std::string size_text(const Size& s) {
  return std::to_string(s.x) + "x" + std::to_string(s.y) + "x" + std::to_string(s.z);
}

// Throws if the grid or the group is more than Metal allows.
void check_limits(const mpsx_kernel_record& record, const Argument* arguments, size_t count, const Dispatch& d) {
  const std::string name = record.name;
  if (d.group.count() == 0 || d.group.count() > record.max_threads)
    throw Error(name + ": expected 1 to " + std::to_string(record.max_threads) + " threads per threadgroup, got " +
                size_text(d.group) + " = " + std::to_string(d.group.count()));
  const uint64_t axes[][2] = {{d.grid.x, d.group.x}, {d.grid.y, d.group.y}, {d.grid.z, d.group.z}};
  for (const auto& [grid, group] : axes)
    if (grid * (d.by_threads ? 1 : group) > UINT32_MAX)
      throw Error(name + ": expected a grid of at most 4294967295 threads an axis, got threadgroups " +
                  size_text(d.grid) + " of " + size_text(d.group) + " threads");
  uint64_t bytes = record.static_threadgroup_bytes;
  for (size_t i = 0; i < count; ++i)
    if (arguments[i].kind == Argument::Kind::threadgroup) bytes += arguments[i].size;
  if (bytes > Arena::kLimit)
    throw Error(name + ": expected at most " + std::to_string(Arena::kLimit) + " bytes of threadgroup memory, got " +
                std::to_string(bytes));
}

}  // namespace

uint64_t chosen_seed() {
  if (const uint64_t seed = number_from("MPSX_SIMT_SEED", UINT32_MAX)) return seed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return (uint64_t(now) * 0x9e3779b97f4a7c15u ^ uint64_t(getpid()) * 0xbf58476d1ce4e5b9u) % UINT32_MAX + 1;
}

uint32_t chosen_threads() { return uint32_t(number_from("MPSX_SIMT_THREADS", 1024)); }
uint32_t chosen_cores() { return uint32_t(number_from("MPSX_SIMT_CORES", 4096)); }

void dispatch(const mpsx_kernel_record& record, void* const* args, const void* const* constants,
              const Argument* arguments, size_t count, const Dispatch& d, const Options& options,
              ParallelFor parallel_for) {
  check_limits(record, arguments, count, d);
  const auto groups = [&](uint32_t grid, uint32_t group) {
    return d.by_threads ? uint32_t((uint64_t(grid) + group - 1) / group) : grid;
  };
  const auto threads = [&](uint32_t grid, uint32_t group) { return d.by_threads ? grid : grid * group; };
  Job job;
  job.record = &record;
  job.arguments = arguments;
  job.argument_count = count;
  std::copy(args, args + MPSX_MAX_BUFFERS, job.args);
  job.launch = {{threads(d.grid.x, d.group.x), threads(d.grid.y, d.group.y), threads(d.grid.z, d.group.z)},
                {groups(d.grid.x, d.group.x), groups(d.grid.y, d.group.y), groups(d.grid.z, d.group.z)},
                {d.group.x, d.group.y, d.group.z},
                constants};
  job.interruptible = options.interruptible;
  job.interrupts = interrupts();
  job.seed = options.seed;
  job.strict = options.strict;
  LaunchCounts counts;
  const ProfiledKernel* const profiled = options.strict ? profiled_kernel(record) : nullptr;
  if (profiled) {
    job.record = profiled->record;
    job.seed = 0;
    job.make_monitor = [&] { return std::make_unique<Profile>(*profiled->table, counts); };
  } else if (options.strict) {
    job.make_monitor = &make_memory_check;
  }
  const uint64_t total = uint64_t(job.launch.groups[0]) * job.launch.groups[1] * job.launch.groups[2];
  const uint64_t grain = std::max<uint64_t>(1, kGrainThreads / d.group.count());
  if (total <= grain || profiled)
    run_groups(job, 0, total);
  else
    parallel_for(total, grain, [&](uint64_t begin, uint64_t end) { run_groups(job, begin, end); });
  if (job.failed) throw Error(job.message);
  if (profiled) keep_counts(*profiled, counts, job.launch);
}

}  // namespace mpsx::driver::host::simt
