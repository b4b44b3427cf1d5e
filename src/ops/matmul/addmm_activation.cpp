// mpsx::addmm_activation: activation(mat1 @ mat2 + self) as one GEMM. torch.compile uses it for linear layers that an
// activation follows (python/mpsx/inductor/epilogues.py). aten::_addmm_activation has only ReLU and GELU.
#include <ATen/ops/empty.h>

#include <array>
#include <string_view>

#include "ops/explicit.h"
#include "ops/matmul/matmul.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

uint32_t activation_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, uint32_t>, 4> kNames{{{"relu", kActivationRelu},
                                                                         {"gelu", kActivationGelu},
                                                                         {"gelu_tanh", kActivationGeluTanh},
                                                                         {"silu", kActivationSilu}}};
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  TORCH_CHECK_VALUE(false, "addmm_activation: expected relu, gelu, gelu_tanh or silu, got ", name);
}

Tensor allocate_activated(const MaybeTensor& self, const Tensor& mat1, const Tensor& mat2) {
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2 && mat1.sym_size(1) == mat2.sym_size(0),
              "addmm_activation: expected matrices of sizes [M, K] and [K, N], got ", mat1.sym_sizes(), " and ",
              mat2.sym_sizes());
  for (const MaybeTensor& other : {MaybeTensor(mat2), self})
    TORCH_CHECK(!other || other->scalar_type() == mat1.scalar_type(),
                "addmm_activation: expected tensors of one dtype, got ", mat1.scalar_type(), " and ",
                other->scalar_type());
  return at::empty_symint({mat1.sym_size(0), mat2.sym_size(1)}, mat1.options().memory_format(std::nullopt));
}

Tensor activated_meta(const MaybeTensor& self, const Tensor& mat1, const Tensor& mat2, std::string_view activation) {
  activation_of(activation);
  const Tensor out = allocate_activated(self, mat1, mat2);
  if (self) self->expand_symint(out.sym_sizes());
  return out;
}

Tensor activated(const MaybeTensor& self, const Tensor& mat1, const Tensor& mat2, std::string_view activation) {
  GemmEpilogue epilogue;
  epilogue.activation = activation_of(activation);
  const Tensor out = allocate_activated(self, mat1, mat2);
  if (self) {
    epilogue.beta = 1;
    epilogue.c = self->expand(out.sizes());
  }
  gemm(out, mat1, mat2, epilogue);
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  using namespace explicit_ops;
  define_op(m, "mpsx::addmm_activation(Tensor? self, Tensor mat1, Tensor mat2, str activation) -> Tensor",
            Accepts::FLOATS, &activated, &activated_meta);
  add_not_differentiable(m, "addmm_activation");
}

}  // namespace mpsx::ops
