// Counts the memory accesses, calls and executed blocks of a launch (LaunchCounts). The kernel must be compiled for
// profiling.
//
// Because the lanes of a SIMD group run one after another, each lane logs its accesses. The logs are merged where the
// lanes converge: in a SIMD function, at a barrier, or at the end. Over all lanes, the n-th executions of an
// instruction since the last convergence point form one request of the SIMD group.
#pragma once

#include <array>
#include <vector>

#include "driver/host/simt/engine.h"
#include "driver/host/simt/launch_counts.h"
#include "metal_stdlib/profile_abi.h"

namespace mpsx::driver::host::simt {

class Profile final : public Monitor {
 public:
  Profile(const mpsx_profile_table_t& table, LaunchCounts& counts);
  static Profile* here() noexcept { return static_cast<Profile*>(Worker::here()->monitor()); }

  void begin_group(Worker&) override;
  void end_group(Worker&) override;
  void variable(Worker&, const Arena::Variable&) override {}
  void threadgroup_barrier(Worker&, const Site&) override;
  void simdgroup_barrier(Worker&, unsigned simdgroup, const Site&) override;
  void lanes_converged(Worker&, unsigned simdgroup, unsigned mask, const Site&) override;

  void access(const void* p, unsigned site);
  void range(const void* p, unsigned long bytes, unsigned site);
  void block(unsigned block);

 private:
  struct Access {
    uint32_t site, occurrence;  // occurrence: how many times the lane has executed the site before
    uintptr_t address;
  };
  struct LaneLog {
    std::vector<uint32_t> sites;
    std::vector<uintptr_t> addresses;
  };
  static constexpr size_t kMaxLogged = size_t(1) << 26;  // maximum number of accesses between two convergence points

  void find_memory();
  unsigned enter();
  void join(uint32_t mask);
  void join_accesses(uint32_t mask);
  void join_diverged(uint32_t mask);
  void join_blocks(uint32_t mask);
  void count(unsigned site, const uintptr_t* addresses, unsigned lanes);
  void count_call(const Site&, unsigned lanes);

  const mpsx_profile_table_t& table_;
  LaunchCounts& counts_;
  Worker* worker_ = nullptr;
  uint32_t group_ = 0;
  unsigned simdgroup_ = 0;  // the SIMD group whose accesses are in the logs
  std::array<LaneLog, MPSX_SIMD_WIDTH> logs_;
  std::vector<std::array<uint32_t, MPSX_SIMD_WIDTH>> executed_;  // indexed by block
  std::vector<uint32_t> blocks_;                                 // blocks that have counts in executed_
};

extern const mpsx_profile_calls kProfileCalls;

}  // namespace mpsx::driver::host::simt
