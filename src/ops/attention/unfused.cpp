// Launches metal/attention/attention_scores_tensor.metal.
#include "ops/attention/unfused.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ops/matmul/matmul.h"
#include "runtime/tier.h"
#include "runtime/tuning.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kMinRows = 128;  // of a block

// A block of S: some query rows of several KV heads. `group_head` selects one of the query heads that share a KV head.
struct Block {
  int64_t head, heads, group_head, row, rows, columns;
  bool first;  // of these KV heads

  ScoreBlock params() const {
    return {uint32_t(head), uint32_t(group_head), uint32_t(row), uint32_t(rows), uint32_t(columns), uint32_t(stride())};
  }
  int64_t stride() const { return (columns + 3) / 4 * 4; }
  Tensor scores(const Tensor& memory) const {
    return memory.as_strided({heads, rows, columns}, {rows * stride(), stride(), 1});
  }
  // Returns this block's rows of a tensor of [heads, query heads per KV head, length, head_dim], and of one of
  // [heads, length, head_dim].
  Tensor queries(const Tensor& t) const { return t.narrow(0, head, heads).select(1, group_head).narrow(1, row, rows); }
  Tensor keys(const Tensor& t) const { return t.narrow(0, head, heads).narrow(1, 0, columns); }
};

struct BlockSizes {
  int64_t heads, rows, elements;
};
BlockSizes block_sizes(const AttentionParams& p, int64_t heads) {
  constexpr int64_t kElements = 32 << 20;  // enough for GEMMs that fill a large GPU
  // Under a causal mask, a block ends with the keys that its last query attends to. With this many blocks, GEMMs
  // compute 56% of S.
  constexpr int64_t kCausalBlocks = 8;
  const int64_t queries = p.q_len, columns = (int64_t(p.kv_len) + 3) / 4 * 4;
  const int64_t wanted = p.causal ? (queries + kCausalBlocks - 1) / kCausalBlocks : queries;
  const int64_t rows = std::min(std::clamp(wanted, kMinRows, std::max(kMinRows, kElements / columns)), queries);
  const int64_t heads_per_block = std::clamp<int64_t>(kElements / (rows * columns), 1, heads);
  return {heads_per_block, rows, heads_per_block * rows * columns};
}

// Calls `f` for each block. The blocks of a head come in order of decreasing rows, so that under a causal mask the
// first one has the most keys.
template <typename F>
void for_each_block(const AttentionParams& p, int64_t heads, const BlockSizes& sizes, F&& f) {
  const int64_t queries = p.q_len, last = (queries - 1) / sizes.rows * sizes.rows;
  for (int64_t head = 0; head < heads; head += sizes.heads)
    for (int64_t group_head = 0; group_head < int64_t(p.gqa_factor); ++group_head)
      for (int64_t row = last; row >= 0; row -= sizes.rows) {
        const int64_t rows = std::min(sizes.rows, queries - row), keys = p.kv_len;
        f(Block{head, std::min(sizes.heads, heads - head), group_head, row, rows,
                p.causal ? std::min(keys, row + rows) : keys, group_head == 0 && row == last});
      }
}

Tensor by_query_head(const Tensor& t, const AttentionParams& p) {
  return t.view({t.size(0) * t.size(1) / p.gqa_factor, p.gqa_factor, t.size(2), t.size(3)});
}
Tensor by_head(const Tensor& t) { return t.view({t.size(0) * t.size(1), t.size(2), t.size(3)}); }

// Launches a threadgroup per row of the block.
void run_rows(Launch& l, const Block& block) {
  constexpr uint64_t kPerThread = 16;  // elements, in four vectors
  const uint64_t threads = std::clamp<uint64_t>(ceil_div(block.columns, kPerThread), 32, 256);
  l.groups({uint32_t(block.rows), uint32_t(block.heads)}, uint32_t(ceil_div(threads, 32) * 32))
      .work(uint64_t(block.columns) * 8)
      .run();
}
// Launches a threadgroup per tile of the block.
void run_tiles(Launch& l, const Block& block, const AttentionParams& p) {
  const uint64_t tiles = ceil_div(block.rows, ScoreTile::rows) * ceil_div(block.columns, ScoreTile::columns);
  l.groups({uint32_t(tiles), uint32_t(block.heads)}, 2 * ScoreTile::rows, true)
      .work(uint64_t(ScoreTile::rows) * ScoreTile::columns * (1 + (p.head_dim + p.v_head_dim) / 16))
      .run();
}

}  // namespace

bool prefers_unfused_attention(const AttentionInputs& in, bool backward) {
  const runtime::Tuning& tuned = runtime::tuning();
  return tag_of(in.query) == Tag::f32 && runtime::uses_tensor_tier() && runtime::prefers_large_tensor_tiles() &&
         std::min(in.p.q_len, in.p.kv_len) >= tuned.attention_unfused_length &&
         (backward || std::max(in.p.head_dim, in.p.v_head_dim) > tuned.attention_unfused_head_dim);
}

Tensor unfused_attention(const AttentionInputs& in, const Tensor& lse) {
  static const KernelSet kernels("attention_tensor_softmax");
  const AttentionParams& p = in.p;
  const auto options = in.query.options().memory_format(std::nullopt);
  const Tensor out = at::empty({in.query.size(0), in.query.size(1), in.query.size(2), in.value.size(3)}, options);
  const Tensor Q = by_query_head(in.query.contiguous(), p), O = by_query_head(out, p);
  const Tensor K = by_head(in.key.contiguous()), V = by_head(in.value.contiguous());
  const BlockSizes sizes = block_sizes(p, K.size(0));
  const Tensor memory = at::empty({sizes.elements}, options);
  for_each_block(p, K.size(0), sizes, [&](const Block& block) {
    const Tensor S = block.scores(memory);
    gemm(S, block.queries(Q), block.keys(K).transpose(1, 2));
    const ScoreBlock params = block.params();
    Launch l(kernels.get());
    l.outputs(S, lse).inputs(in.mask, in.seed, in.offset).bytes(p).bytes(params);
    run_rows(l, block);
    gemm(block.queries(O), S, block.keys(V));
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> unfused_attention_backward(const AttentionInputs& in, const Tensor& grad_out,
                                                              const Tensor& out, const Tensor& lse) {
  static const KernelSet delta_kernels("attention_tensor_backward_delta"), kernels("attention_tensor_backward_scores");
  const AttentionParams& p = in.p;
  const auto options = in.query.options().memory_format(std::nullopt);
  const Tensor delta = at::empty(lse.sizes(), options);
  constexpr uint32_t kThreads = 128;  // two for each query
  Launch row_sums(delta_kernels.get());
  row_sums.outputs(delta).inputs(grad_out, out).bytes(p);
  row_sums
      .groups({uint32_t(ceil_div(p.q_len, kThreads / 2)), uint32_t(lse.size(1)), uint32_t(lse.size(0))}, kThreads, true)
      .work(uint64_t(p.v_head_dim) * kThreads)
      .run();
  const bool reaches_all_keys = !p.causal || p.q_len >= p.kv_len;
  const auto gradient_of_keys = [&](const Tensor& t) {
    return reaches_all_keys ? at::empty(t.sizes(), options) : at::zeros(t.sizes(), options);
  };
  const Tensor dq = at::empty(in.query.sizes(), options), dk = gradient_of_keys(in.key);
  const Tensor dv = gradient_of_keys(in.value);
  const Tensor Q = by_query_head(in.query.contiguous(), p), dQ = by_query_head(dq, p);
  const Tensor dO = by_query_head(grad_out.contiguous(), p);
  const Tensor K = by_head(in.key.contiguous()), V = by_head(in.value.contiguous());
  const Tensor dK = by_head(dk), dV = by_head(dv);
  const BlockSizes sizes = block_sizes(p, K.size(0));
  const Tensor memory = at::empty({sizes.elements}, options), grad_memory = at::empty({sizes.elements}, options);
  for_each_block(p, K.size(0), sizes, [&](const Block& block) {
    const Tensor P = block.scores(memory), dS = block.scores(grad_memory);
    const ScoreBlock params = block.params();
    Launch l(kernels.get());
    l.outputs(P, dS).inputs(lse, delta, in.query, in.key, in.value, grad_out, in.mask, in.seed, in.offset);
    l.bytes(p).bytes(params);
    run_tiles(l, block, p);
    const auto accumulate = [&](const Tensor& sum, const Tensor& a, const Tensor& b) {
      gemm(sum, a, b, {1, block.first ? 0 : 1, sum});
    };
    accumulate(block.keys(dV), P.transpose(1, 2), block.queries(dO));
    accumulate(block.keys(dK), dS.transpose(1, 2), block.queries(Q));
    gemm(block.queries(dQ), dS, block.keys(K));
  });
  return {dq, dk, dv};
}

}  // namespace mpsx::ops
