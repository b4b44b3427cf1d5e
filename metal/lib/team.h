// Teams: what shares a row. With collective.h the only place that calls simd_*.
#pragma once

#include "lib/collective.h"

// The threads that share a row: a power of two of a SIMD group's, or a threadgroup.
struct Team {
  uint row, index, count;  // this thread in it, and how many there are
  bool whole;              // it is the threadgroup
};
// Teams of `wanted` threads. Threads beyond a threadgroup's last whole team get the row `rows`, which there is not.
inline Team team_of(uint rows, uint wanted, GroupThread g) {
  if (wanted > g.width || wanted > g.count) return {g.group.x, g.index, g.count, true};
  const uint shift = ctz(wanted), teams = g.count >> shift, team = g.index >> shift;
  return {team < teams ? g.group.x * teams + team : rows, g.index & (wanted - 1), wanted, false};
}
// The value of the lane whose number differs in the bits of `mask`.
template <typename T> inline T lane_across(T v, ushort mask) { return simd_shuffle_xor(v, mask); }
inline long lane_across(long v, ushort mask) {  // shuffles take at most 32 bits
  const uint2 halves = as_type<uint2>(v);
  return as_type<long>(uint2(simd_shuffle_xor(halves.x, mask), simd_shuffle_xor(halves.y, mask)));
}
inline ulong lane_across(ulong v, ushort mask) { return ulong(lane_across(long(v), mask)); }
template <typename K, typename I>
inline Indexed<K, I> lane_across(Indexed<K, I> v, ushort mask) {
  return {lane_across(v.key, mask), lane_across(v.index, mask)};
}

// Reduces one value of every thread of a team; every one gets the result.
template <typename Combine, typename T>
inline T team_reduce(T v, threadgroup T* scratch, Team team, GroupThread g) {
  if (team.whole) return tg_reduce<Combine>(v, scratch, g);
  for (uint distance = team.count / 2; distance > 0; distance /= 2)
    v = Combine::apply(v, lane_across(v, ushort(distance)));
  return v;
}
