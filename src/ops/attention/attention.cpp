// scaled_dot_product_attention: torch asks _fused_sdp_choice (by operator and by stub) whether this device has a fused
// kernel, and calls the "overrideable" pair if so. Without these it would silently take the unfused path.
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
#include "ops/differentiated.h"
#include "ops/random/random.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using OptionalTensor = std::optional<Tensor>;

struct Attended {
  Tensor out, log_sum_exp;
  int64_t seed = 0, offset = 0;  // of dropout's random numbers
};

bool has_mask(const OptionalTensor& mask) { return mask && mask->defined(); }

// Whether a mask spreads over the scores.
bool fits(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const int64_t scores[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
  if (mask.dim() > 4) return false;
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.size(-1 - d) != 1 && mask.size(-1 - d) != scores[3 - d]) return false;
  return true;
}

// Whether a kernel takes these.
bool take(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout) {
  for (const Tensor* t : {&query, &key, &value})
    if (t->layout() != at::kStrided || !has_float_kernel(*t) || t->dim() != 4 || t->numel() == 0 ||
        t->size(3) > int64_t(kAttentionSize) || t->scalar_type() != query.scalar_type())
      return false;
  const bool heads = key.size(1) == value.size(1) && query.size(1) % key.size(1) == 0;
  const bool sizes = query.size(0) == key.size(0) && key.size(0) == value.size(0) && key.size(2) == value.size(2) &&
                     query.size(3) == key.size(3) && query.size(2) < INT32_MAX && key.size(2) < INT32_MAX;
  if (!heads || !sizes || dropout < 0 || dropout >= 1) return false;
  // The gradient of a mask is that of all scores, which the kernels do not keep.
  return !has_mask(mask) || (is_plain(*mask) && !mask->requires_grad() && fits(*mask, query, key) &&
                             (mask->scalar_type() == at::kBool || has_float_kernel(*mask)));
}

// Rows that kernels can read 16 bytes at a time: where they are not of that kind a copy, with zeros at their ends.
Tensor in_rows(const Tensor& t) {
  const int64_t run = 16 / int64_t(t.element_size()), size = t.size(3);
  bool wide = t.stride(3) == 1 && size % run == 0 && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  for (int64_t d = 0; d < 3; ++d) wide = wide && (t.size(d) == 1 || t.stride(d) % run == 0);
  if (wide) return t;
  const auto whole = int64_t(ceil_div(uint64_t(size), uint64_t(run))) * run;
  return at::zeros({t.size(0), t.size(1), t.size(2), whole}, t.options()).narrow(3, 0, size).copy_(t);
}
// Memory in the order batch, length, head, size: models join the heads of a position afterwards.
Tensor make_like(const Tensor& t, int64_t size) {
  return at::empty({t.size(0), t.size(2), t.size(1), size}, t.options()).transpose(1, 2);
}
// Memory in the order of the query's, as PyTorch lays results out on every device and torch.compile expects.
Tensor make_as(const Tensor& query, int64_t size) {
  if (size == query.size(3)) return at::empty_like(query);
  std::array<int64_t, 4> order{0, 1, 2, 3}, place{}, sizes{};
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  for (size_t i = 0; i < 4; ++i) {
    place[size_t(order[i])] = int64_t(i);
    sizes[i] = order[i] == 3 ? size : query.size(order[i]);
  }
  return at::empty(sizes, query.options()).permute(place);
}
Tensor laid_out_as(const Tensor& query, const Tensor& result) {
  const Tensor expected = make_as(query, result.size(3));
  return expected.strides() == result.strides() ? result : expected.copy_(result);
}
AttentionStrides strides_of(const Tensor& t) { return {t.stride(0), t.stride(1), t.stride(2)}; }

struct Inputs {
  Tensor query, key, value, mask;  // the mask in floats
  AttentionParams p{};
};
Inputs prepare(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
               bool causal, std::optional<double> scale) {
  Inputs in{in_rows(query), in_rows(key), in_rows(value), Tensor()};
  AttentionParams& p = in.p;
  p.query = strides_of(in.query);
  p.key = strides_of(in.key);
  p.value = strides_of(in.value);
  p.queries = uint32_t(query.size(2));
  p.keys = uint32_t(key.size(2));
  p.size = uint32_t(query.size(3));
  p.value_size = uint32_t(value.size(3));
  p.heads = uint32_t(query.size(1));
  p.shared = uint32_t(query.size(1) / key.size(1));
  p.causal = causal;
  p.scale = float(scale.value_or(1 / std::sqrt(double(query.size(3)))));
  p.has_mask = has_mask(mask);
  if (p.has_mask) {
    const bool is_bool = mask->scalar_type() == at::kBool;
    in.mask = is_bool ? at::where(*mask, 0.0f, -std::numeric_limits<float>::infinity()) : mask->to(at::kFloat);
    const Tensor m = in.mask.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
    p.mask_batch = m.stride(0);
    p.mask_head = m.stride(1);
    p.mask_row = m.stride(2);
    p.mask_column = m.stride(3);
  }
  p.has_dropout = dropout > 0;
  if (p.has_dropout) {
    p.bound = bernoulli_bound(1 - dropout);
    p.kept_scale = float(1 / (1 - dropout));
  }
  return in;
}

// A kernel for heads of up to 64, 128 and 256 elements each.
struct AttentionKernels {
  KernelSet small, medium, large;
  Launch launch(const AttentionParams& p, Tag tag) const {
    return Launch((size_of(p) == 64 ? small : size_of(p) == 128 ? medium : large).get(tag));
  }
  static uint32_t size_of(const AttentionParams& p) {
    const uint32_t size = std::max(p.size, p.value_size);
    return size <= 64 ? 64 : size <= 128 ? 128 : 256;
  }
};

// Over blocks of rows of every head.
void run_blocks(Launch& l, const AttentionParams& p, uint64_t rows, uint64_t columns, int64_t heads, int64_t batch) {
  const uint32_t height = 4 * attention_rows(AttentionKernels::size_of(p));
  l.groups({uint32_t(ceil_div(rows, height)), uint32_t(heads), uint32_t(batch)}, kAttentionThreads, true)
      .work(height * (columns + 1) * (1 + (p.size + p.value_size) / 8))
      .run();
}

Attended launch_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                          double dropout, bool causal, std::optional<double> scale) {
  static const AttentionKernels kernels{KernelSet("attention_64"), KernelSet("attention_128"),
                                        KernelSet("attention_256")};
  Inputs in = prepare(query, key, value, mask, dropout, causal, scale);
  AttentionParams& p = in.p;
  const Tensor result = make_as(query, value.size(3));
  const Tensor out = result.stride(3) == 1 ? result : make_like(query, value.size(3));  // kernels write whole rows
  const Tensor log_sums = at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
  p.out = strides_of(out);
  if (p.has_dropout) {
    const uint64_t rows = uint64_t(query.size(0)) * p.heads * p.queries;
    const RandomParams random = random_params(std::nullopt, rows * ((p.keys + 3) / 4) * 4);
    p.seed = random.seed;
    p.first_block = random.offset;
  }
  Launch l = kernels.launch(p, tag_of(query));
  l.pointer(out.mutable_data_ptr()).pointer(log_sums.mutable_data_ptr()).pointer(in.query.const_data_ptr());
  l.pointer(in.key.const_data_ptr()).pointer(in.value.const_data_ptr()).pointer(data_or_null(in.mask)).bytes(p);
  run_blocks(l, p, p.queries, p.keys, query.size(1), query.size(0));
  if (!out.is_same(result)) result.copy_(out);
  return {result, log_sums, int64_t(p.seed), int64_t(p.first_block)};
}

std::tuple<Tensor, Tensor, Tensor> launch_attention_backward(const Tensor& grad_given, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const OptionalTensor& mask, const Attended& done,
                                                             double dropout, bool causal, std::optional<double> scale) {
  static const AttentionKernels of_query{KernelSet("attention_backward_query_64"),
                                         KernelSet("attention_backward_query_128"),
                                         KernelSet("attention_backward_query_256")};
  static const AttentionKernels of_key{KernelSet("attention_backward_key_value_64"),
                                       KernelSet("attention_backward_key_128"),
                                       KernelSet("attention_backward_key_256")};
  static const AttentionKernels of_value{KernelSet("attention_backward_key_value_64"),
                                         KernelSet("attention_backward_value_128"),
                                         KernelSet("attention_backward_value_256")};
  Inputs in = prepare(query, key, value, mask, dropout, causal, scale);
  AttentionParams& p = in.p;
  const Tensor grad = in_rows(grad_given), out = in_rows(done.out), log_sums = done.log_sum_exp.contiguous();
  p.grad = strides_of(grad);
  p.out = strides_of(out);
  p.seed = uint64_t(done.seed);
  p.first_block = uint64_t(done.offset);
  const Tensor delta = at::empty(log_sums.sizes(), log_sums.options());
  const Tensor query_grad = make_like(query, query.size(3)), key_grad = make_like(key, key.size(3));
  const Tensor value_grad = make_like(value, value.size(3));
  p.of_value = strides_of(value_grad);
  const auto run = [&](const AttentionKernels& kernels, const Tensor& result, uint64_t rows, uint64_t columns) {
    p.result = strides_of(result);
    Launch l = kernels.launch(p, tag_of(query));
    l.pointer(result.mutable_data_ptr()).pointer(value_grad.mutable_data_ptr()).pointer(delta.mutable_data_ptr());
    l.pointer(log_sums.const_data_ptr()).pointer(in.query.const_data_ptr()).pointer(in.key.const_data_ptr());
    l.pointer(in.value.const_data_ptr()).pointer(grad.const_data_ptr()).pointer(out.const_data_ptr());
    l.pointer(data_or_null(in.mask)).bytes(p);
    run_blocks(l, p, rows, columns, result.size(1), query.size(0));
  };
  run(of_query, query_grad, p.queries, p.keys);
  run(of_key, key_grad, p.keys, uint64_t(p.queries) * p.shared);
  if (AttentionKernels::size_of(p) > 64) run(of_value, key_grad, p.keys, uint64_t(p.queries) * p.shared);
  return {query_grad, key_grad, value_grad};
}

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
               bool causal, std::optional<double> scale, bool grouped) {
  bool fused;
  if (is_transformed(query) || is_transformed(key) || is_transformed(value) ||
      (has_mask(mask) && is_transformed(*mask))) {
    fused = false;
  } else if (vendor::preferred()) {
    fused = vendor::takes_attention(query, key, value, mask, dropout, causal, scale, grouped);
  } else {
    const bool heads_fit = query.dim() == 4 && key.dim() == 4 && (grouped || query.size(1) == key.size(1));
    fused = at::globalContext().userEnabledOverrideableSDP() && heads_fit && take(query, key, value, mask, dropout);
  }
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
    bool causal, bool, std::optional<double> scale) {
  Attended done;
  if (vendor::preferred()) {  // takes no dropout, so there is no random state to hand to the backward
    std::tie(done.out, done.log_sum_exp) = vendor::attention(query, key, value, mask, dropout, causal, scale);
    done.out = laid_out_as(query, done.out);
    done.log_sum_exp = done.log_sum_exp.contiguous();
  } else {
    TORCH_CHECK(take(query, key, value, mask, dropout), "scaled_dot_product_attention: no kernel for a query of ",
                query.scalar_type(), " ", query.sizes(), ", a key of ", key.sizes(), " and a value of ", value.sizes());
    done = launch_attention(query, key, value, mask, dropout, causal, scale);
  }
  const Tensor seed = at::scalar_tensor(done.seed, c10::kLong), offset = at::scalar_tensor(done.offset, c10::kLong);
  return {done.out, done.log_sum_exp, Tensor(), Tensor(), query.sym_size(2), key.sym_size(2), seed, offset, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                                    const Tensor& value, const Tensor& bias, std::array<bool, 4>,
                                                    const Tensor& out, const Tensor& log_sum_exp, const Tensor&,
                                                    const Tensor&, int64_t, int64_t, double dropout, bool causal,
                                                    const Tensor& seed, const Tensor& offset,
                                                    std::optional<double> scale) {
  const auto mask = bias.defined() ? std::optional(bias) : std::nullopt;
  std::tuple<Tensor, Tensor, Tensor> gradients;
  if (vendor::preferred()) {
    gradients = vendor::attention_backward(grad, query, key, value, out, log_sum_exp, mask, dropout, causal, scale);
  } else {
    Attended done{out, log_sum_exp};
    if (dropout > 0) {  // without it callers have no random numbers to name
      done.seed = seed.item<int64_t>();
      done.offset = offset.item<int64_t>();
    }
    gradients = launch_attention_backward(grad, query, key, value, mask, done, dropout, causal, scale);
  }
  const auto& [of_query, of_key, of_value] = gradients;
  return {laid_out_as(query, of_query), laid_out_as(key, of_key), laid_out_as(value, of_value), Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", &choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
}

}  // namespace mpsx::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &mpsx::ops::choice)
}
