// Classifies the tiles of an attention mask.
#include "attention/attention_mask.h"
#include "lib/instantiate.h"
#include "lib/threadgroup.h"
#include "lib/vec.h"

struct CombineBits {
  static uint apply(uint a, uint b) { return a | b; }
};

// Returns the bits of a tile's elements that this thread reads, in vectors of 16 bytes. IS_WHOLE: the tile's rows are
// aligned, and none ends within the tile.
template <typename T, bool IS_WHOLE>
METAL_FUNC uint classify(device const T* mask, uint query_start, uint key_start, constant AttentionParams& p,
                         GroupThread g) {
  enum : uint { kVec = 16 / sizeof(T), kRow = kMaskTile / kVec, kVectors = kMaskTile * kRow };
  enum : uint { kUnroll = 8 };  // vectors in flight
  uint kinds = 0;
  for (uint start = g.index; start < kVectors; start += g.count * kUnroll) {
    uint4 words[kUnroll];
    MPSX_UNROLL
    for (uint u = 0; u < kUnroll; ++u) {
      const uint i = min(start + u * g.count, kVectors - 1), query = min(query_start + i / kRow, p.q_len - 1);
      const uint key = key_start + i % kRow * kVec;
      device const T* row = mask + long(query) * p.mask_row;
      if (IS_WHOLE) {
        words[u] = *(device const uint4*)(row + key);
      } else {
        words[u] = uint4(0);
        MPSX_UNROLL
        for (uint n = 0; n < kVec; ++n) VecWords<T, sizeof(T)>::set(words[u], n, row[min(key + n, p.kv_len - 1)]);
      }
    }
    MPSX_UNROLL
    for (uint u = 0; u < kUnroll; ++u) {
      const uint i = min(start + u * g.count, kVectors - 1);
      bool visible = false, nonzero = false;
      MPSX_UNROLL
      for (uint n = 0; n < kVec; ++n) {
        const float value = float(VecWords<T, sizeof(T)>::get(words[u], n));
        visible |= value != -INFINITY;
        nonzero |= value != 0.0f;
      }
      const uint quarter = i / (kVectors / 2) * 2 + i % kRow / (kRow / 2);
      kinds |= (uint(visible) | uint(nonzero) << 4) << quarter;
    }
  }
  return kinds;
}

// A threadgroup per tile. Grid z indexes the mask's heads and batch elements. If the mask is the same for all heads,
// queries or batch elements, the corresponding stride of its tiles is 0.
template <typename T>
[[max_total_threads_per_threadgroup(256)]]
kernel void attention_mask_tiles(device uchar* tiles [[buffer(0)]], device const T* mask [[buffer(1)]],
                                 constant AttentionParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint scratch[kScratch];
  const uint heads = p.mask_tiles_head == 0 ? 1 : p.q_heads;
  const uint batch = g.group.z / heads, head = g.group.z % heads;
  const uint query = g.group.y * kMaskTile, key = g.group.x * kMaskTile;
  mask += long(batch) * p.mask_batch + long(head) * p.mask_head;
  const bool is_whole = p.mask_is_aligned && key + kMaskTile <= p.kv_len;
  uint kinds = is_whole ? classify<T, true>(mask, query, key, p, g) : classify<T, false>(mask, query, key, p, g);
  kinds = tg_reduce<CombineBits>(kinds, scratch, g);
  if (g.index == 0)
    tiles[ulong(batch) * p.mask_tiles_batch + ulong(head) * p.mask_tiles_head + ulong(g.group.y) * p.mask_tiles_row +
          g.group.x] = uchar(kinds);
}

#define MPSX_ATTENTION_MASK(T, TAG, ...) MPSX_KERNEL("attention_mask_tiles_" #TAG, attention_mask_tiles<T>)
MPSX_FOR_FLOAT(MPSX_ATTENTION_MASK)
