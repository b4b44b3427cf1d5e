// Rotary position embedding. The backward pass runs the same kernel with negated angles.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty_like.h>

#include "attention/params.h"
#include "ops/explicit.h"
#include "ops/op.h"

namespace mpsx::ops {
namespace {

// Checks that cos and sin contain one angle per pair (last dimension D / 2) or one per element (last dimension D, as in
// Transformers).
void check(const Tensor& input, const Tensor& cos, const Tensor& sin) {
  TORCH_CHECK(input.dim() > 0 && input.sym_size(-1) % 2 == 0,
              "rotary_embedding: expected an input whose last dimension is even, got shape ", input.sym_sizes());
  TORCH_CHECK(cos.sym_sizes() == sin.sym_sizes() && cos.scalar_type() == sin.scalar_type(),
              "rotary_embedding: expected cos and sin of the same shape and type, got ", cos.scalar_type(), " of ",
              cos.sym_sizes(), " and ", sin.scalar_type(), " of ", sin.sym_sizes());
  TORCH_CHECK(cos.dim() > 0 && (cos.sym_size(-1) * 2 == input.sym_size(-1) || cos.sym_size(-1) == input.sym_size(-1)),
              "rotary_embedding: expected cos and sin with a last dimension of ", input.sym_size(-1) / 2, " or ",
              input.sym_size(-1), ", got shape ", cos.sym_sizes());
  bool broadcasts = cos.dim() <= input.dim();
  for (int64_t d = 2; broadcasts && d <= cos.dim(); ++d)
    broadcasts = cos.sym_size(-d) == 1 || cos.sym_size(-d) == input.sym_size(-d);
  TORCH_CHECK(broadcasts,
              "rotary_embedding: expected cos and sin that broadcast to the input in all but the last dimension, ",
              "got ", cos.sym_sizes(), " and an input of ", input.sym_sizes());
  TORCH_CHECK(cos.scalar_type() == at::kFloat || cos.scalar_type() == input.scalar_type(),
              "rotary_embedding: expected cos and sin in float32 or the input's type ", input.scalar_type(), ", got ",
              cos.scalar_type());
}

// Keeps the input's memory order if its rows are dense, so that attention does not have to copy a transposed view.
Tensor result_like(const Tensor& input) {
  const bool keeps = input.is_non_overlapping_and_dense() && (input.sym_size(-1) <= 1 || input.sym_stride(-1) == 1);
  return at::empty_like(input, keeps ? at::MemoryFormat::Preserve : at::MemoryFormat::Contiguous);
}

Tensor dense_rows(const Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }

struct RowDims {
  c10::SmallVector<int64_t, 6> size;  // innermost first
  c10::SmallVector<std::array<int64_t, 4>, 6> stride;
};

// Returns all dimensions except the last, merging adjacent dimensions that are contiguous in every operand.
RowDims row_dims(const std::array<Tensor, 4>& operands) {
  RowDims rows;
  const Tensor& out = operands[0];
  for (int64_t d = out.dim() - 2; d >= 0; --d) {
    if (out.size(d) == 1) continue;
    std::array<int64_t, 4> stride;
    bool merges = !rows.size.empty() && rows.size.back() * out.size(d) <= INT32_MAX;
    for (int k = 0; k < 4; ++k) {
      stride[k] = operands[k].stride(d);
      merges = merges && stride[k] == rows.stride.back()[k] * rows.size.back();
    }
    if (merges) {
      rows.size.back() *= out.size(d);
    } else {
      rows.size.push_back(out.size(d));
      rows.stride.push_back(stride);
    }
  }
  return rows;
}

Tensor rotate(const Tensor& input, const Tensor& cos, const Tensor& sin, bool interleaved, bool inverse) {
  static const KernelSet halves("rotary_embedding_halves"), pairs("rotary_embedding_interleaved"),
      pairs_by_element("rotary_embedding_interleaved_pairs");
  check(input, cos, sin);
  Tensor out = result_like(input);
  if (out.numel() == 0) return out;
  const int64_t pair_count = input.size(-1) / 2;
  const bool by_element = cos.size(-1) == input.size(-1);
  const auto broadcast = [&](const Tensor& t) {
    auto sizes = input.sizes().vec();
    sizes.back() = t.size(-1);
    return dense_rows(t).expand(sizes);
  };
  const std::array<Tensor, 4> operands{out, dense_rows(input), broadcast(cos), broadcast(sin)};
  const RowDims rows = row_dims(operands);

  RotaryParams p{};
  p.second = interleaved ? 1 : pair_count;
  p.cos_second = by_element ? p.second : 0;
  p.sin_first = inverse ? p.cos_second : 0;
  p.sin_second = inverse ? 0 : p.cos_second;
  p.sign = inverse ? -1.0f : 1.0f;
  p.size[0] = uint32_t(pair_count);
  uint64_t planes = 1;
  for (size_t d = 0; d < 3; ++d) {
    p.size[d + 1] = d < rows.size.size() ? uint32_t(rows.size[d]) : 1;
    for (int k = 0; k < 4; ++k) p.stride[k][d + 1] = d < rows.size.size() ? rows.stride[d][k] : 0;
  }
  for (size_t d = 3; d < rows.size.size(); ++d) planes *= uint64_t(rows.size[d]);

  const KernelSet& kernels = !interleaved ? halves : by_element ? pairs_by_element : pairs;
  auto& kernel = kernels.get(tag_of(input), tag_of(cos));
  for (uint64_t plane = 0; plane < planes; ++plane) {
    Launch launch(kernel);
    for (int k = 0; k < 4; ++k) {
      int64_t offset = 0;
      uint64_t rest = plane;
      for (size_t d = 3; d < rows.size.size(); ++d) {
        offset += int64_t(rest % uint64_t(rows.size[d])) * rows.stride[d][k];
        rest /= uint64_t(rows.size[d]);
      }
      launch.pointer(static_cast<char*>(operands[k].data_ptr()) + offset * operands[k].element_size(),
                     k ? Access::read : Access::write);
    }
    launch.bytes(p).threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3]).work(2).run();
  }
  return out;
}

Tensor rotary_embedding(const Tensor& input, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate(input, cos, sin, interleaved, /*inverse=*/false);
}
Tensor rotary_embedding_backward(const Tensor& grad, const Tensor& cos, const Tensor& sin, bool interleaved) {
  return rotate(grad, cos, sin, interleaved, /*inverse=*/true);
}
Tensor rotary_embedding_meta(const Tensor& input, const Tensor& cos, const Tensor& sin, bool) {
  check(input, cos, sin);
  return result_like(input);
}

using namespace explicit_ops;

// Maps every pair (a, b) to (-b, a).
Tensor rotate_half(const Tensor& x, bool interleaved) {
  const c10::SymInt half = x.sym_size(-1) / 2;
  if (interleaved) {
    const Tensor pairs = x.unflatten_symint(-1, {half, 2});
    return run<"cat">(std::vector<Tensor>{run<"neg">(pairs.narrow(-1, 1, 1)), pairs.narrow(-1, 0, 1)}, int64_t(-1))
        .flatten(-2, -1);
  }
  return run<"cat">(std::vector<Tensor>{run<"neg">(x.narrow_symint(-1, half, half)), x.narrow_symint(-1, 0, half)},
                    int64_t(-1));
}
// Returns the gradient of the angles: one per element, or the sum over the two elements of each pair.
Tensor angle_gradient(const Tensor& by_element, const Tensor& angles, bool interleaved) {
  const c10::SymInt size = by_element.sym_size(-1);
  if (angles.sym_size(-1) == size) return by_element;
  const c10::SymInt half = size / 2;
  if (interleaved) {
    const Tensor pairs = by_element.unflatten_symint(-1, {half, 2});
    return run<"add">(pairs.select(-1, 0), pairs.select(-1, 1), at::Scalar(1));
  }
  return run<"add">(by_element.narrow_symint(-1, 0, half), by_element.narrow_symint(-1, half, half), at::Scalar(1));
}

Gradients derivative(const BackwardCall& c) {
  const Tensor cos = c.tensor(1), sin = c.tensor(2);
  const bool interleaved = c.argument(3).toBool();
  Gradients gradients;
  if (c.needs(0)) gradients.emplace_back(0, run<"rotary_embedding_backward">(c.grad(), cos, sin, interleaved));
  if (c.needs(1)) gradients.emplace_back(1, angle_gradient(run<"mul">(c.grad(), c.tensor(0)), cos, interleaved));
  if (c.needs(2))
    gradients.emplace_back(
        2, angle_gradient(run<"mul">(c.grad(), rotate_half(c.tensor(0), interleaved)), sin, interleaved));
  return gradients;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  define_op(m, "mpsx::rotary_embedding(Tensor input, Tensor cos, Tensor sin, bool interleaved=False) -> Tensor",
            Accepts::FLOATS, &rotary_embedding, &rotary_embedding_meta);
  define_op(m, "mpsx::rotary_embedding_backward(Tensor grad, Tensor cos, Tensor sin, bool interleaved) -> Tensor",
            Accepts::FLOATS, &rotary_embedding_backward, &rotary_embedding_meta);
  // Save the input only if the angles need a gradient.
  add_derivative(m, {"rotary_embedding", kept({0, 1, 2}), 0, &derivative,
                     [](uint64_t wanted) { return kept({1, 2}) | (wanted >> 1 ? 1 : 0); }});
  add_not_differentiable(m, "rotary_embedding_backward");
}

}  // namespace mpsx::ops
