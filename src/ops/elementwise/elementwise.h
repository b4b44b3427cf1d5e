// One launcher for every elementwise operator: at::TensorIterator plans shapes, strides and types (so that
// broadcasting, promotion, resizing and overlap checks are PyTorch's own), and this picks the kernel variant that fits
// the strides.
#pragma once

#include <ATen/TensorIterator.h>

#include <optional>

#include "elementwise/params.h"
#include "ops/operator.h"

namespace mpsx::ops {

// Elements a dense dispatch, so that indices fit 32 bits.
inline constexpr uint64_t kMaxDense = uint64_t(1) << 30;

// A Python number as a tensor: 0-dim, on the CPU, and weak in type promotion.
Tensor wrapped_number(const at::Scalar& s);

// Throws where elements of `type` cannot hold a number, in PyTorch's words: where its kernels convert one with a check.
void check_holds(at::ScalarType type, const at::Scalar& s);

// Scalar arguments a and b of an operator, in both forms that kernels read; rounded to half or bfloat where asked.
ScalarParams scalar_params(const at::Scalar& a = 0, const at::Scalar& b = 0, Tag type = Tag::none);

// The kernels of one operator, by what the operands look like. Names: <op>_<variant>_<tag>, see kernels.h.
class ElementwiseKernels {
 public:
  enum class Order { fixed, swaps };
  ElementwiseKernels(const std::string& op, int inputs, Order order = Order::fixed);
  // Binary operators whose mirror image is another operator (lt and gt).
  ElementwiseKernels(const std::string& op, const ElementwiseKernels* mirror);

  // Runs over a built iterator: output 0, then the inputs, all of the kernel's element types. An input on the CPU (a
  // 0-dim tensor, at most one) is passed by value. `tag`: the type kernels are named by; `second`: for `copy`, where.
  void run(at::TensorIteratorBase& iter, Tag tag, ScalarParams scalars, Tag second = Tag::none) const;
  bool has(Tag tag, Tag second = Tag::none) const { return any_.has(tag, second); }
  const std::string& op() const { return op_; }
  // Copies between places of two tensors of one type, `sizes` of them by strides in elements; `to` has at most
  // kMaxDense.
  static void copy_between(const Tensor& to, const Tensor& from, at::IntArrayRef sizes, at::IntArrayRef to_strides,
                           at::IntArrayRef from_strides);

 private:
  struct Operands;
  void run_dense(const Operands&, Tag, Tag, ScalarParams&) const;
  void run_strided(const Operands&, Tag, Tag, const ScalarParams&) const;
  void run_repeated(const Operands&, Tag, Tag, ScalarParams) const;
  void run_spread(const Operands&, Tag, Tag, const ScalarParams&) const;
  static void launch_strided(runtime::KernelEntry&, const Operands&, const ScalarParams&, bool transposed);
  static void copy_strided(const Operands&);
  static void copy_lines(Operands, int64_t bytes);
  static void copy_brief_rows(Operands, Tag);
  std::string op_;
  int inputs_;
  Order order_ = Order::fixed;
  bool exact_last_ = false, moves_ = false, costly_ = false;
  const ElementwiseKernels* mirror_ = nullptr;
  KernelSet dense_, blocks_, right_, left_, rows_11_, rows_10_, rows_01_, rows_1n_, transposed_, any_;
};

// Which element types a table row is instantiated for; as MPSX_FOR_* in metal/lib/instantiate.h.
enum class Types : uint8_t { FLOAT, INT, REAL, BITS, ALL };
constexpr bool covers(Types types, Tag tag) {
  const bool f = is_float_tag(tag), b = tag == Tag::b8, i = !f && !b && tag < Tag::b8;
  switch (types) {
    case Types::FLOAT:
      return f;
    case Types::INT:
      return i;
    case Types::REAL:
      return f || i;
    case Types::BITS:
      return i || b;
    case Types::ALL:
      return f || i || b;
  }
  return false;
}

// An input as kernels want it: on this device in type `common`, or a 0-dim CPU tensor left as it is (passed by value).
// Borrowed where it is so already: a second reference to a tensor of Python's has to wait for its interpreter lock.
c10::MaybeOwned<Tensor> to_common(const Tensor& t, at::ScalarType common);

}  // namespace mpsx::ops
