// Stable sort of a tile by one digit, in a threadgroup of kSortThreads threads. Each SIMD group processes kSortEach
// consecutive vectors of elements. Elements with the same digit stay ordered by SIMD group, vector and lane.
#pragma once

#include "lib/collective.h"
#include "sort/keys.h"
#include "sort/params.h"

struct SortDigit {
  uint shift, order;
  template <typename T> uint of(T x) const { return uint(key_in_order(x, order) >> shift) & (kSortDigits - 1); }
};

template <typename T>
struct SortTile {
  union {
    T values[kSortTile];
    sort_key_t<T> keys[kRanked];  // for sort_by_rank
  };
  uint order[kSortTile];
  ushort counts[kSortGroups * kSortDigits];  // per SIMD group; later their exclusive sums over SIMD groups
  uint starts[kSortDigits + 1], scratch[kScratch];
};

// The original indices of the elements: those from the previous pass, or consecutive numbers from `first`.
struct TileOrder {
  device const uint* known;
  uint first;
  uint at(uint i) const { return known ? known[i] : first + i; }
};

// The elements that a thread sorts.
template <typename T>
struct SortItems {
  T values[kSortEach];
  uint order[kSortEach];

  static uint position(uint k, GroupThread g) { return (g.index / g.width * kSortEach + k) * g.width + g.lane; }

  void load(device const T* x, TileOrder numbers, uint n, GroupThread g) {
    MPSX_UNROLL for (uint k = 0; k < kSortEach; ++k) {
      const uint i = position(k, g);
      if (i < n) values[k] = x[i], order[k] = numbers.at(i);
    }
  }
  // Reloads the elements in their sorted order.
  void reload(threadgroup SortTile<T>& tile, uint n, GroupThread g) {
    MPSX_UNROLL for (uint k = 0; k < kSortEach; ++k) {
      const uint i = position(k, g);
      if (i < n) values[k] = tile.values[i], order[k] = tile.order[i];
    }
    tg_barrier();
  }
  // Sorts n elements within the tile. Sets tile.starts to the positions at which the digits start.
  void sort(threadgroup SortTile<T>& tile, SortDigit digit, uint n, GroupThread g) {
    threadgroup ushort* own = tile.counts + g.index / g.width * kSortDigits;
    for (uint d = g.lane; d < kSortDigits; d += g.width) own[d] = 0;
    sg_barrier();
    uint before[kSortEach];
    MPSX_UNROLL for (uint k = 0; k < kSortEach; ++k) {
      const bool valid = position(k, g) < n;
      const uint d = valid ? digit.of(values[k]) : 0u;
      uint peers = lanes_with(valid);
      MPSX_UNROLL for (uint b = 0; b < kSortBits; ++b) {
        const uint set = lanes_with((d >> b & 1u) != 0);
        peers &= d >> b & 1u ? set : ~set;
      }
      const uint below = popcount(peers & ((1u << g.lane) - 1u));
      if (valid) before[k] = own[d] + below;
      sg_barrier();
      if (valid && below == 0) own[d] = ushort(before[k] + popcount(peers));
      sg_barrier();
    }
    tg_barrier();
    uint all = 0, total;  // total count of digit g.index
    for (uint s = 0; s < kSortGroups; ++s) {
      const uint here = tile.counts[s * kSortDigits + g.index];
      tile.counts[s * kSortDigits + g.index] = ushort(all);
      all += here;
    }
    const uint start = tg_prefix_sum(all, total, tile.scratch, g);
    tile.starts[g.index] = start;
    if (g.index == 0) tile.starts[kSortDigits] = n;
    tg_barrier();
    MPSX_UNROLL for (uint k = 0; k < kSortEach; ++k) {
      if (position(k, g) >= n) continue;
      const uint d = digit.of(values[k]), to = tile.starts[d] + own[d] + before[k];
      tile.values[to] = values[k];
      tile.order[to] = order[k];
    }
    tg_barrier();
  }
};
