// Classified tiles of an attention mask. attention_mask.metal stores a byte for each tile of kMaskTile queries and
// keys: whether each quarter of the tile contains elements that are not -inf, and elements that are not 0. The
// attention kernels skip tiles that are hidden, and do not read the mask where it is 0.
#pragma once

#include "attention/attention_math.h"
#include "lib/threadgroup.h"

enum : uint {
  kMaskVisible = 0x0f,  // a bit per quarter, in row-major order: some element is not -inf
  kMaskNonzero = 0xf0,  // the same: some element is not 0
};
// Returns the bits of the quarters that contain a tile of S.
template <uint QUERIES, uint KEYS>
inline uint mask_tile_bits(uint query, uint key) {
  enum : uint { kHalf = kMaskTile / 2 };
  const uint row = KEYS > kHalf ? 0x33 : 0x11 << (key / kHalf % 2);
  return QUERIES > kHalf ? row | row << 2 : row << (query / kHalf % 2 * 2);
}

// Tells which tiles of a threadgroup's rows the mask hides or changes. Without a mask, all tiles are visible.
// ROWS and COLUMNS: the tile size of S, whose rows are queries or keys.
template <uint ROWS, uint COLUMNS, bool ROWS_ARE_QUERIES>
struct MaskTiles {
  device const uchar* tiles;
  uint row, stride;
  bool exist;

  METAL_FUNC uint kinds(uint column) const {
    const uint bits =
        ROWS_ARE_QUERIES ? mask_tile_bits<ROWS, COLUMNS>(row, column) : mask_tile_bits<COLUMNS, ROWS>(column, row);
    return tiles[ulong(column / kMaskTile) * stride] & bits;
  }
  // Returns the first column of the first tile from `column` on that is not hidden.
  METAL_FUNC uint next(uint column, uint end) const {
    if (exist)
      while (column < end && !(kinds(column) & kMaskVisible)) column += COLUMNS;
    return column;
  }
  // Returns whether a mask adds anything to a tile.
  METAL_FUNC bool adds(uint column, constant AttentionParams& p) const {
    return exist ? (kinds(column) & kMaskNonzero) != 0 : p.has_mask != 0;
  }
};
template <uint ROWS, uint COLUMNS, bool ROWS_ARE_QUERIES>
inline MaskTiles<ROWS, COLUMNS, ROWS_ARE_QUERIES> mask_tiles(device const uchar* tiles, uint row, uint batch, uint head,
                                                             constant AttentionParams& p) {
  const uint tile = row / kMaskTile;
  const ulong offset = ulong(batch) * p.mask_tiles_batch + ulong(head) * p.mask_tiles_head +
                       (ROWS_ARE_QUERIES ? ulong(tile) * p.mask_tiles_row : tile);
  return {p.has_mask_tiles ? tiles + offset : tiles, row, ROWS_ARE_QUERIES ? 1 : p.mask_tiles_row,
          p.has_mask_tiles != 0};
}

// Scales S to the unit of exp2(), hides elements, and adds the mask if READS_MASK. Instead of branching, a hidden
// element loads its nearest neighbor inside the mask, so that half of the loads can be in flight at once.
template <bool ROWS_ARE_QUERIES, bool READS_MASK, typename Matrix, typename M>
METAL_FUNC void scale_scores(thread Matrix& S, uint row, uint column, device const M* mask,
                             constant AttentionParams& p) {
  const uint query_start = ROWS_ARE_QUERIES ? row : column, key_start = ROWS_ARE_QUERIES ? column : row;
  const int last_query = int(p.q_len - 1 - query_start), last_key = int(p.kv_len - 1 - key_start);
  mask += long(query_start) * p.mask_row + key_start;
  const float factor = p.scale * M_LOG2E_F;
  MPSX_UNROLL
  for (ushort i = 0; i < S.get_capacity(); ++i) {
    const auto at = S.get_multidimensional_index(i);
    const int query = int(at[ROWS_ARE_QUERIES ? 1 : 0]), key = int(at[ROWS_ARE_QUERIES ? 0 : 1]);
    // All loads at once would need too many registers, so let the compiler move them no further than this.
    if (READS_MASK && i == S.get_capacity() / 2) sg_barrier();
    const bool visible = is_visible(query_start + uint(query), key_start + uint(key), p);
    float bias = 0.0f;
    if (READS_MASK) bias = float((mask + long(min(query, last_query)) * p.mask_row)[min(key, last_key)]);
    S[i] = visible ? fma(S[i], factor, bias * M_LOG2E_F) : -INFINITY;
  }
}
// Scales S and adds the mask to a tile inside the matrix that hides nothing. Rows of the mask are aligned. Loads two
// adjacent keys at a time if a thread has both. Otherwise, the kernel would be limited by the number of its loads.
template <bool ROWS_ARE_QUERIES, typename Matrix, typename M>
METAL_FUNC void add_whole_mask(thread Matrix& S, uint row, uint column, device const M* mask,
                               constant AttentionParams& p) {
  mask += long(ROWS_ARE_QUERIES ? row : column) * p.mask_row + (ROWS_ARE_QUERIES ? column : row);
  const float factor = p.scale * M_LOG2E_F;
  vec<M, 2> pair = vec<M, 2>(M(0));
  MPSX_UNROLL
  for (ushort i = 0; i < S.get_capacity(); ++i) {
    const auto at = S.get_multidimensional_index(i), other = S.get_multidimensional_index(i ^ 1);
    const int query = int(at[ROWS_ARE_QUERIES ? 1 : 0]), key = int(at[ROWS_ARE_QUERIES ? 0 : 1]);
    device const M* const from = mask + (long(query) * p.mask_row + key);
    // The compiler knows whether elements are pairs, because it unrolls the loop.
    const bool is_first = ROWS_ARE_QUERIES && i % 2 == 0 && other[1] == at[1] && other[0] == at[0] + 1;
    const bool is_second = ROWS_ARE_QUERIES && i % 2 == 1 && other[1] == at[1] && other[0] == at[0] - 1;
    if (is_first && key % 2 == 0)
      pair = *(device const vec<M, 2>*)from;
    else if (!(is_second && key % 2 == 1))
      pair = vec<M, 2>(*from);
    S[i] = fma(S[i], factor, float(is_second ? pair.y : pair.x) * M_LOG2E_F);
  }
}
// Returns whether the scores of a tile need no more than a factor. The softmax finds each row's maximum before it
// applies the factor, which must therefore be positive.
METAL_FUNC bool is_unmasked(bool all_visible, bool reads_mask, constant AttentionParams& p) {
  return all_visible && !reads_mask && p.scale > 0.0f;
}
// Applies the mask. Returns the factor that converts S to the unit of exp2(): scale * log2(e), or 1 if the function has
// already scaled S, which it does when it adds a mask or hides elements.
template <bool ROWS_ARE_QUERIES, uint ROWS, typename Matrix, typename T>
METAL_FUNC float mask_scores(thread Matrix& S, uint row, uint column, bool all_visible, bool reads_mask,
                             device const T* mask, constant AttentionParams& p) {
  if (is_unmasked(all_visible, reads_mask, p)) return p.scale * M_LOG2E_F;
  const bool is_whole = all_visible && p.mask_is_aligned && (!ROWS_ARE_QUERIES || row + ROWS <= p.q_len);
  if (!reads_mask)
    scale_scores<ROWS_ARE_QUERIES, false>(S, row, column, mask, p);
  else if (is_whole && p.mask_is_float)
    add_whole_mask<ROWS_ARE_QUERIES>(S, row, column, (device const float*)mask, p);
  else if (is_whole)
    add_whole_mask<ROWS_ARE_QUERIES>(S, row, column, mask, p);
  else if (p.mask_is_float)
    scale_scores<ROWS_ARE_QUERIES, true>(S, row, column, (device const float*)mask, p);
  else
    scale_scores<ROWS_ARE_QUERIES, true>(S, row, column, mask, p);
  return 1.0f;
}
