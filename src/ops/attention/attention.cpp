// Implements scaled_dot_product_attention. PyTorch calls _fused_sdp_choice, both as an operator and as a stub, to ask
// whether this device has a fused kernel, and then calls the "overrideable" operators. Without them, it silently uses
// the math path.
#include "vendor/cpu/attention.h"

#include <ATen/Context.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attention/attention_params.h"
#include "ops/attention/unfused.h"
#include "ops/differentiated.h"
#include "ops/operator.h"
#include "ops/random/random.h"
#include "runtime/random_argument.h"
#include "runtime/tier.h"
#include "runtime/tuning.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using OptionalTensor = std::optional<Tensor>;

bool has_mask(const OptionalTensor& mask) { return mask && mask->defined(); }

// These functions must not ask for concrete sizes, because torch.compile calls them with symbolic ones.
bool broadcasts_to_scores(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const c10::SymInt scores[] = {query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)};
  if (mask.dim() > 4) return false;
  for (int64_t d = 0; d < mask.dim(); ++d) {
    const c10::SymInt size = mask.sym_size(-1 - d);
    if (size != 1 && size != scores[3 - d]) return false;
  }
  return true;
}

bool has_kernel(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                double dropout) {
  for (const Tensor* t : {&query, &key, &value})
    if (t->layout() != at::kStrided || !has_float_kernel(*t) || t->dim() != 4 || t->sym_numel() == 0 ||
        t->sym_size(3) > int64_t(kMaxHeadDim) || t->scalar_type() != query.scalar_type())
      return false;
  const bool heads = key.sym_size(1) == value.sym_size(1) && query.sym_size(1) % key.sym_size(1) == 0;
  const bool sizes = query.sym_size(0) == key.sym_size(0) && key.sym_size(0) == value.sym_size(0) &&
                     key.sym_size(2) == value.sym_size(2) && query.sym_size(3) == key.sym_size(3) &&
                     query.sym_size(2) < INT32_MAX && key.sym_size(2) < INT32_MAX;
  if (!heads || !sizes || dropout < 0 || dropout >= 1) return false;
  // The gradient of a mask needs dS, which the kernels do not store.
  return !has_mask(mask) || (is_plain(*mask) && !mask->requires_grad() && broadcasts_to_scores(*mask, query, key) &&
                             (mask->scalar_type() == at::kBool || has_float_kernel(*mask)));
}

// Returns the size of a row in elements, rounded up to 16 bytes.
int64_t padded_row(const Tensor& t) {
  const auto vec = 16 / uint64_t(t.element_size());
  return int64_t(ceil_div(uint64_t(t.size(3)), vec) * vec);
}
// Returns rows that kernels can read 16 bytes at a time, a positive number of bytes apart. This is `t` itself if it is
// aligned, or else a copy padded with zeros.
Tensor aligned_rows(const Tensor& t) {
  const int64_t vec = 16 / int64_t(t.element_size()), size = t.size(3);
  bool is_aligned = t.stride(3) == 1 && size % vec == 0 && (t.size(2) == 1 || t.stride(2) > 0) &&
                    reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  for (int64_t d = 0; d < 3; ++d) is_aligned = is_aligned && (t.size(d) == 1 || t.stride(d) % vec == 0);
  if (is_aligned) return t;
  return at::zeros({t.size(0), t.size(1), t.size(2), padded_row(t)}, t.options()).narrow(3, 0, size).copy_(t);
}
// Allocates memory in the query's dimension order, which PyTorch uses on every device and torch.compile expects.
Tensor empty_like_query(const Tensor& query, int64_t size) {
  if (size == query.size(3)) return at::empty_like(query);
  std::array<int64_t, 4> order{0, 1, 2, 3}, position{}, sizes{};
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  for (size_t i = 0; i < 4; ++i) {
    position[size_t(order[i])] = int64_t(i);
    sizes[i] = order[i] == 3 ? size : query.size(order[i]);
  }
  return at::empty(sizes, query.options()).permute(position);
}
// Like empty_like_query(), but with dense rows, which kernels need.
Tensor empty_rows(const Tensor& query, int64_t size) {
  const Tensor t = empty_like_query(query, size);
  return t.stride(3) == 1 ? t : at::empty({t.size(0), t.size(1), t.size(2), size}, t.options());
}
Tensor to_query_layout(const Tensor& query, const Tensor& result) {
  if (result.strides() == query.strides() && result.sizes() == query.sizes() && query.is_non_overlapping_and_dense())
    return result;
  const Tensor expected = empty_like_query(query, result.size(3));
  return expected.strides() == result.strides() ? result : expected.copy_(result);
}
// The stride of a single row may be anything, so return one that keeps the rows aligned.
AttentionStrides strides_of(const Tensor& t) {
  return {t.stride(0), t.stride(1), t.size(2) == 1 ? padded_row(t) : t.stride(2)};
}

// Returns a 4-d mask that kernels can add: in float32 or the dtype of the query, and contiguous along the keys.
Tensor kernel_mask(const Tensor& mask, at::ScalarType dtype) {
  const bool is_typed = mask.scalar_type() == dtype || mask.scalar_type() == at::kFloat;
  if (is_typed && (mask.stride(3) == 1 || mask.size(3) == 1)) return mask;
  Tensor m = mask;
  for (int64_t d = 0; d < 3; ++d)
    if (m.stride(d) == 0) m = m.narrow(d, 0, 1);  // copy expanded elements once
  if (m.scalar_type() == at::kBool) {
    const auto number = [&](double value) { return at::scalar_tensor(value, at::TensorOptions(dtype)); };
    m = at::where(m, number(0), number(-std::numeric_limits<double>::infinity()));
  } else if (!is_typed) {
    m = m.to(at::kFloat);
  }
  return m.contiguous().expand(mask.sizes());
}

AttentionInputs prepare(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                        double dropout, bool causal, std::optional<double> scale) {
  AttentionInputs in{aligned_rows(query), aligned_rows(key), aligned_rows(value)};
  AttentionParams& p = in.p;
  p.Q = strides_of(in.query);
  p.K = strides_of(in.key);
  p.V = strides_of(in.value);
  p.q_len = uint32_t(query.size(2));
  p.kv_len = uint32_t(key.size(2));
  p.head_dim = uint32_t(query.size(3));
  p.v_head_dim = uint32_t(value.size(3));
  p.q_heads = uint32_t(query.size(1));
  p.gqa_factor = uint32_t(query.size(1) / key.size(1));
  p.causal = causal;
  p.scale = float(scale.value_or(1 / std::sqrt(double(query.size(3)))));
  p.has_mask = has_mask(mask);
  if (p.has_mask) {
    const Tensor scores_mask = mask->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
    in.mask = kernel_mask(scores_mask, query.scalar_type());
    p.mask_is_float = in.mask.scalar_type() == at::kFloat;
    p.mask_batch = in.mask.stride(0);
    p.mask_head = in.mask.stride(1);
    p.mask_row = in.mask.stride(2);
  }
  p.has_dropout = dropout > 0;
  if (p.has_dropout) {
    p.keep_bound = bernoulli_bound(1 - dropout);
    p.keep_scale = float(1 / (1 - dropout));
  }
  return in;
}

// Classifies the tiles of the mask, if it has several (attention_mask.h).
Tensor classify_mask(const AttentionInputs& in, AttentionParams& p) {
  static const KernelSet kernels("attention_mask_tiles");
  const uint32_t q_tiles = uint32_t(ceil_div(p.q_len, kMaskTile)), kv_tiles = uint32_t(ceil_div(p.kv_len, kMaskTile));
  if (!p.has_mask || (q_tiles == 1 && kv_tiles == 1)) return {};
  // The tiles of dimensions along which the mask is expanded are classified once.
  const uint32_t rows = p.mask_row == 0 ? 1 : q_tiles, heads = p.mask_head == 0 ? 1 : p.q_heads;
  const uint32_t batch = p.mask_batch == 0 ? 1 : uint32_t(in.query.size(0));
  const Tensor tiles = at::empty({batch, heads, rows, kv_tiles}, in.query.options().dtype(at::kByte));
  p.has_mask_tiles = true;
  p.mask_tiles_row = rows == 1 ? 0 : kv_tiles;
  p.mask_tiles_head = heads == 1 ? 0 : rows * kv_tiles;
  p.mask_tiles_batch = batch == 1 ? 0 : heads * rows * kv_tiles;
  p.mask_is_aligned =
      runtime::is_vector_aligned(runtime::address_of(in.mask.const_data_ptr()) |
                                 uint64_t(p.mask_batch | p.mask_head | p.mask_row) * uint64_t(in.mask.element_size()));
  Launch(kernels.get(tag_of(in.mask)))
      .outputs(tiles)
      .inputs(in.mask)
      .bytes(p)
      .groups({kv_tiles, rows, heads * batch})
      .work(kMaskTile * kMaskTile)
      .run();
  return tiles;
}

// A kernel with its threadgroup size and the number of rows of S (S^T in the dK and dV passes) per threadgroup.
struct AttentionKernel {
  runtime::KernelEntry& entry;
  uint32_t rows, threads;
};

// Kernels of a pass, by head dimension. `wide_pass` is the pass for head dimensions above 64. The tensor tier has
// kernels for 16-bit elements and head dimensions up to 128, some of them in tiles (attention_tiles_tensor.metal).
struct AttentionKernels {
  AttentionKernels(const std::string& pass, const std::string& wide_pass)
      : small("attention" + pass + "_64"),
        medium("attention" + wide_pass + "_128"),
        large("attention" + wide_pass + "_256"),
        tensor_small("attention_tensor" + pass + "_64"),
        tensor_medium("attention_tensor" + wide_pass + "_128"),
        tiles_small("attention_tensor_tiles" + pass + "_64"),
        tiles_medium("attention_tensor_tiles" + pass + "_128"),
        is_backward(!pass.empty()) {}
  KernelSet small, medium, large, tensor_small, tensor_medium, tiles_small, tiles_medium;
  bool is_backward;

  AttentionKernel choose(const AttentionParams& p, Tag tag) const {
    const uint32_t head_dim = padded_head_dim(p);
    if (uses_tiles(p, tag)) {
      const uint32_t simdgroups = attention_tile_simdgroups(is_backward, head_dim);
      return {(head_dim == 64 ? tiles_small : tiles_medium).get(tag), 16 * simdgroups, 32 * simdgroups};
    }
    if (uses_tensor_tier(p, tag)) {
      if (runtime::uses_tensor_fragments())
        return {(head_dim == 64 ? tensor_small : tensor_medium).get(tag), 4 * attention_rows(head_dim),
                kAttentionThreads};
    }
    return {(head_dim == 64    ? small
             : head_dim == 128 ? medium
                               : large)
                .get(tag),
            4 * attention_rows(head_dim), kAttentionThreads};
  }
  static bool uses_tensor_tier(const AttentionParams& p, Tag tag) {
    return (tag == Tag::f16 || tag == Tag::bf16) && padded_head_dim(p) <= 128 && runtime::uses_tensor_tier();
  }
  static bool uses_tiles(const AttentionParams& p, Tag tag) {
    return uses_tensor_tier(p, tag) && runtime::prefers_large_tensor_tiles() &&
           p.q_len >= runtime::tuning().attention_tile_queries;
  }
  // Returns whether one kernel computes both dK and dV.
  static bool computes_dk_and_dv(const AttentionParams& p, Tag tag) {
    return padded_head_dim(p) == 64 || uses_tiles(p, tag);
  }
  static uint32_t padded_head_dim(const AttentionParams& p) {
    const uint32_t head_dim = std::max(p.head_dim, p.v_head_dim);
    return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
  }
};

// Stores the state of the random number generator in device memory, and reserves `count` random numbers. In a
// recording, each replay stores a new state.
void store_random_state(const Tensor& seed, const Tensor& offset, uint64_t count) {
  static const KernelSet kernels("random_state");
  const RandomParams params = random_params(std::nullopt, count);
  Launch(kernels.get()).outputs(seed, offset).bytes(runtime::random_argument(params)).threads(1).run();
}

// Launches one threadgroup per row tile, head and batch element.
void run_tiles(Launch& l, const AttentionKernel& kernel, const AttentionParams& p, uint64_t rows, uint64_t columns,
               int64_t heads, int64_t batch) {
  l.groups({uint32_t(ceil_div(rows, kernel.rows)), uint32_t(heads), uint32_t(batch)}, kernel.threads, true)
      .work(kernel.rows * (columns + 1) * (1 + (p.head_dim + p.v_head_dim) / 8))
      .run();
}

// Returns the result and the logsumexp, and stores the random state for dropout in `seed` and `offset`.
std::tuple<Tensor, Tensor> launch_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                            const OptionalTensor& mask, double dropout, bool causal,
                                            std::optional<double> scale, const Tensor& seed, const Tensor& offset) {
  static const AttentionKernels kernels("", "");
  AttentionInputs in = prepare(query, key, value, mask, dropout, causal, scale);
  AttentionParams& p = in.p;
  const Tensor lse = at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
  if (p.has_dropout) {
    in.seed = seed, in.offset = offset;
    const uint64_t rows = uint64_t(query.size(0)) * p.q_heads * p.q_len;
    store_random_state(in.seed, in.offset, rows * ((p.kv_len + 3) / 4) * 4);
  }
  if (prefers_unfused_attention(in, false)) return {to_query_layout(query, unfused_attention(in, lse)), lse};
  const Tensor out = empty_rows(query, value.size(3));
  p.O = strides_of(out);
  const AttentionKernel kernel = kernels.choose(p, tag_of(query));
  const Tensor mask_tiles = classify_mask(in, p);
  Launch l(kernel.entry);
  l.outputs(out, lse).inputs(in.query, in.key, in.value, in.mask, mask_tiles, in.seed, in.offset).bytes(p);
  run_tiles(l, kernel, p, p.q_len, p.kv_len, query.size(1), query.size(0));
  return {to_query_layout(query, out), lse};
}

std::tuple<Tensor, Tensor, Tensor> launch_attention_backward(const Tensor& grad_out, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const OptionalTensor& mask, const Tensor& saved_out,
                                                             const Tensor& saved_lse, const Tensor& seed,
                                                             const Tensor& offset, double dropout, bool causal,
                                                             std::optional<double> scale) {
  static const AttentionKernels dq_kernels("_backward_dq", "_backward_dq");
  static const AttentionKernels dk_kernels("_backward_dkv", "_backward_dk");
  static const AttentionKernels dv_kernels("_backward_dkv", "_backward_dv");
  AttentionInputs in = prepare(query, key, value, mask, dropout, causal, scale);
  AttentionParams& p = in.p;
  const Tensor lse = saved_lse.contiguous();
  if (p.has_dropout) {  // without dropout, callers may pass undefined tensors
    for (const Tensor& t : {seed, offset})
      TORCH_CHECK(t.defined() && t.device() == query.device() && t.scalar_type() == at::kLong && t.numel() == 1,
                  "scaled_dot_product_attention backward: expected int64 scalars on ", query.device(),
                  " as the seed and offset of dropout, got ", t.toString());
    in.seed = seed, in.offset = offset;
  }
  const Tensor grad = aligned_rows(grad_out), out = aligned_rows(saved_out);
  p.dO = strides_of(grad);
  p.O = strides_of(out);
  if (prefers_unfused_attention(in, true)) return unfused_attention_backward(in, grad, out, lse);
  // The dQ pass stores this for the others: delta, or pairs that contain it (attention_tiles_backward).
  const bool uses_tiles = AttentionKernels::uses_tiles(p, tag_of(query));
  const int64_t q_rows = uses_tiles ? int64_t(ceil_div(p.q_len, kMaxTileRows) * kMaxTileRows * 2) : int64_t(p.q_len);
  const Tensor delta = at::empty({lse.size(0), lse.size(1), q_rows}, lse.options());
  const Tensor dq = empty_rows(query, query.size(3)), dk = empty_rows(key, key.size(3));
  const Tensor dv = empty_rows(value, value.size(3));
  p.dV = strides_of(dv);
  const Tensor mask_tiles = classify_mask(in, p);
  const auto run = [&](const AttentionKernels& kernels, const Tensor& result, uint64_t rows, uint64_t columns) {
    p.dQK = strides_of(result);
    const AttentionKernel kernel = kernels.choose(p, tag_of(query));
    Launch l(kernel.entry);
    l.outputs(result, dv, delta).inputs(lse, in.query, in.key, in.value, grad, out, in.mask, mask_tiles);
    l.inputs(in.seed, in.offset).bytes(p);
    run_tiles(l, kernel, p, rows, columns, result.size(1), query.size(0));
  };
  run(dq_kernels, dq, p.q_len, p.kv_len);
  run(dk_kernels, dk, p.kv_len, uint64_t(p.q_len) * p.gqa_factor);
  if (!AttentionKernels::computes_dk_and_dv(p, tag_of(query)))
    run(dv_kernels, dk, p.kv_len, uint64_t(p.q_len) * p.gqa_factor);
  return {dq, dk, dv};
}

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
               bool causal, std::optional<double> scale, bool grouped) {
  bool fused;
  if (is_transformed(query) || is_transformed(key) || is_transformed(value) ||
      (has_mask(mask) && is_transformed(*mask))) {
    fused = false;
  } else if (vendor::preferred()) {
    fused = vendor::accepts_attention(query, key, value, mask, dropout, causal, scale, grouped);
  } else {
    const bool heads_fit = query.dim() == 4 && key.dim() == 4 && (grouped || query.sym_size(1) == key.sym_size(1));
    fused =
        at::globalContext().userEnabledOverrideableSDP() && heads_fit && has_kernel(query, key, value, mask, dropout);
  }
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
    bool causal, bool, std::optional<double> scale) {
  const auto scalar = query.options().dtype(at::kLong);  // only dropout stores and reads the random state
  const Tensor seed = at::empty({}, scalar), offset = at::empty({}, scalar);
  Tensor out, lse;
  if (vendor::preferred()) {
    std::tie(out, lse) = vendor::attention(query, key, value, mask, dropout, causal, scale);
    out = to_query_layout(query, out);
    lse = lse.contiguous();
  } else {
    TORCH_CHECK(has_kernel(query, key, value, mask, dropout), "scaled_dot_product_attention: no kernel for a query of ",
                query.scalar_type(), " ", query.sizes(), ", a key of ", key.sizes(), " and a value of ", value.sizes());
    std::tie(out, lse) = launch_attention(query, key, value, mask, dropout, causal, scale, seed, offset);
  }
  return {out, lse, Tensor(), Tensor(), query.sym_size(2), key.sym_size(2), seed, offset, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const Tensor& bias, std::array<bool, 4>,
                                                    const Tensor& out, const Tensor& lse, const Tensor&, const Tensor&,
                                                    int64_t, int64_t, double dropout, bool causal, const Tensor& seed,
                                                    const Tensor& offset, std::optional<double> scale) {
  const auto mask = bias.defined() ? std::optional(bias) : std::nullopt;
  std::tuple<Tensor, Tensor, Tensor> gradients;
  if (vendor::preferred()) {
    gradients = vendor::attention_backward(grad, query, key, value, out, lse, mask, dropout, causal, scale);
  } else {
    gradients =
        launch_attention_backward(grad, query, key, value, mask, out, lse, seed, offset, dropout, causal, scale);
  }
  const auto& [dq, dk, dv] = gradients;
  return {to_query_layout(query, dq), to_query_layout(key, dk), to_query_layout(value, dv), Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_fused_sdp_choice", &choice);
  impl(m, "_scaled_dot_product_fused_attention_overrideable", &forward);
  impl(m, "_scaled_dot_product_fused_attention_overrideable_backward", &backward);
}

}  // namespace mpsx::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &mpsx::ops::choice)
}
