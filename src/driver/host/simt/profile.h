// Counts what the threads of a launch do (LaunchCounts), of a kernel that was compiled for profiling.
//
// Lanes of a SIMD group run one after the other, so what each does is noted, and put together where they meet: in a
// SIMD function, at a barrier, at the end. The n-th execution of an instruction by each lane since then is one request
// of the SIMD group.
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
  void lanes_met(Worker&, unsigned simdgroup, unsigned mask, const Site&) override;

  void access(const void* p, unsigned site);
  void range(const void* p, unsigned long bytes, unsigned site);
  void block(unsigned block);

 private:
  struct Access {
    uint32_t site, turn;  // turn: how often the lane had executed it
    uintptr_t address;
  };
  struct LaneLog {
    std::vector<uint32_t> sites;
    std::vector<uintptr_t> addresses;
  };
  static constexpr size_t kMostLogged = size_t(1) << 26;  // accesses of a SIMD group between two meetings

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
  unsigned simdgroup_ = 0;  // whose lanes the notes are of
  std::array<LaneLog, MPSX_SIMD_WIDTH> logs_;
  std::vector<std::array<uint32_t, MPSX_SIMD_WIDTH>> executed_;  // by block
  std::vector<uint32_t> blocks_;                                 // of which something is noted
};

extern const mpsx_profile_calls kProfileCalls;

}  // namespace mpsx::driver::host::simt
