// The arguments that all launchers of a GEMM share.
#pragma once

#include <ATen/ops/empty.h>

#include <utility>

#include "ops/gemm.h"
#include "ops/matmul/matmul.h"

namespace mpsx::ops {

// Returns the strides of a matrix or a batch of matrices.
inline MatmulStrides matmul_strides(const Tensor& t) {
  return {t.stride(-2), t.stride(-1), t.dim() == 3 && t.size(0) > 1 ? t.stride(0) : 0};
}

struct MatmulKernels {
  KernelSet tiled, gemv, gemv_t;
};

// The operands and parameters of a GEMM. `from` is the type of a and b if it differs from the output type.
struct GemmArgs {
  const MatmulKernels& kernels;
  Tag from;
  Tensor out, a, b, c, scale;
  MatmulParams p;
  uint64_t batch;

  runtime::KernelEntry& of(const KernelSet& set) const {
    const Tag tag = tag_of(out);
    return from == Tag::none ? set.get(tag) : set.get(from, tag);
  }
  const void* c_data() const { return p.has_c ? c.const_data_ptr() : nullptr; }
  const void* scale_data() const { return p.has_scale ? scale.const_data_ptr() : nullptr; }

  // Replaces C = A B by its transpose, Cᵀ = Bᵀ Aᵀ.
  void transpose() {
    std::swap(a, b);
    std::swap(p.a, p.b);
    std::swap(p.M, p.N);
    std::swap(p.vectorize_a, p.vectorize_b);
    for (MatmulStrides* s : {&p.a, &p.b, &p.c, &p.out}) std::swap(s->row, s->column);
  }
  // Sets the split-K parameters. If K is split, allocates the partial sums.
  Tensor set_split_k(SplitK split) {
    p.split_k = split.splits;
    p.k_per_split = split.k_per_split;
    if (split.splits == 1) return Tensor();
    return at::empty({int64_t(batch) * p.split_k * p.M, p.N},
                     out.options().dtype(at::kFloat).memory_format(std::nullopt));
  }
  Launch& bind(Launch& l) const {
    l.outputs(out).inputs(a, b).pointer(c_data());
    return l.pointer(scale_data()).bytes(p);
  }
  void reduce_split_k(const Tensor& partials) const {
    static const KernelSet reduce_kernels("matmul_split_k_reduce");
    if (!partials.defined()) return;
    Launch l(reduce_kernels.get(tag_of(out)));
    l.outputs(out).pointer(c_data()).pointer(scale_data()).bytes(p).inputs(partials);
    l.threads(p.N, p.M, batch).work(p.split_k).run();
  }
};

}  // namespace mpsx::ops
