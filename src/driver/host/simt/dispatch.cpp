#include "driver/host/simt/dispatch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "driver/dispatch_check.h"
#include "driver/environment.h"
#include "driver/host/interrupt.h"
#include "driver/host/simt/engine.h"
#include "driver/host/simt/memory_check.h"
#include "driver/host/simt/profile.h"
#include "driver/host/simt/profiled_kernels.h"

namespace mpsx::driver::host::simt {
namespace {

constexpr uint64_t kGrainThreads = 256;  // with fewer threads, a second core does not pay off

// Throws Error if the dispatch exceeds a limit of Metal.
void check_limits(const mpsx_kernel_record& record, const Argument* arguments, size_t count, const Dispatch& d) {
  Kernel kernel;
  kernel.name = record.name;
  kernel.max_threads = record.max_threads;
  kernel.static_threadgroup_bytes = record.static_threadgroup_bytes;
  check_dispatch(kernel, arguments, count, d);
}

}  // namespace

uint64_t configured_seed() {
  if (const uint64_t seed = env_number("MPSX_SIMT_SEED", 1, UINT32_MAX, 0)) return seed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return (uint64_t(now) * 0x9e3779b97f4a7c15u ^ uint64_t(getpid()) * 0xbf58476d1ce4e5b9u) % UINT32_MAX + 1;
}

uint32_t configured_threads() { return uint32_t(env_number("MPSX_SIMT_THREADS", 1, 1024, 0)); }
bool configured_large_tiles() { return env_number("MPSX_SIMT_LARGE_TILES", 0, 1, 1) != 0; }
uint32_t configured_cores() { return uint32_t(env_number("MPSX_SIMT_CORES", 1, 4096, 0)); }

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
  job.interrupts = interrupt_count();
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
  // Checks of races compare memory before and after a write, so no other CPU thread may run.
  if (total <= grain || options.strict)
    run_groups(job, 0, total);
  else
    parallel_for(total, grain, [&](uint64_t begin, uint64_t end) { run_groups(job, begin, end); });
  if (job.failed) throw Error(job.message);
  if (profiled) keep_counts(*profiled, counts, job.launch);
}

}  // namespace mpsx::driver::host::simt
