#include "runtime/teams.h"

#include <algorithm>
#include <bit>

#include "runtime/device.h"

namespace mpsx::runtime {
namespace {

// Neighbouring threads that read 128 bytes at once.
constexpr uint64_t kCoalescing = 8;
constexpr uint64_t kSimdGroup = 32, kSharedGroup = 128, kMostThreads = 1024;
// Fewer rows than this leave a GPU idle, and get all the threads that have something to read.
constexpr uint64_t kFewRows = 512;

// Where a threadgroup is one thread, the first cache holds its row.
constexpr uint64_t kCachedRow = 4096;

}  // namespace

Teams teams_for(const KernelEntry& kernel, uint64_t rows, uint64_t size, uint64_t pack, uint64_t held, uint32_t most) {
  const uint64_t packs = std::max<uint64_t>(1, (size + pack - 1) / pack);
  const uint64_t each = rows < kFewRows ? pack : held, threads = (size + each - 1) / each;
  Teams t{};
  if (threads <= kSimdGroup) {  // as few as coalesce: what a row costs is then shared by many packs
    t.team = uint32_t(std::bit_ceil(std::max(threads, std::min(kCoalescing, (packs + 3) / 4))));
    t.per_group = kSharedGroup;
  } else {
    t.team = t.per_group = uint32_t(std::min<uint64_t>(rows < kFewRows ? kMostThreads : most,
                                                       (threads + kSimdGroup - 1) / kSimdGroup * kSimdGroup));
  }
  const uint32_t forced = driver().traits().group_threads;
  t.per_group = std::clamp<uint32_t>(forced ? forced : t.per_group, 1, kernel.kernel->max_threads);
  const bool whole = t.team > kernel.kernel->simd_width || t.team > t.per_group;  // as team_of decides
  t.rows = whole ? 1 : t.per_group / t.team;
  t.groups = uint32_t((rows + t.rows - 1) / t.rows);
  t.held = kernel.kernel->simd_width == 1 ? kCachedRow : held * std::min(t.team, t.per_group);
  return t;
}

uint64_t longest_row(uint64_t held) { return driver().traits().one_thread_groups ? UINT64_MAX : held; }

}  // namespace mpsx::runtime
