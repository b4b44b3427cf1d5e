// Launches all elementwise operators. at::TensorIterator determines shapes, dtypes and memory, so broadcasting,
// promotion, resizing and overlap checks are the same as in PyTorch. The class below selects a kernel based on the
// strides.
#pragma once

#include <ATen/TensorIterator.h>

#include <optional>

#include "elementwise/params.h"
#include "ops/operator.h"

namespace mpsx::ops {

// Converts a Python number to a 0-dim CPU tensor that has low priority in type promotion.
Tensor wrapped_number(const at::Scalar& s);

// Throws PyTorch's error if `type` cannot represent a number. Call this where PyTorch's kernels make the same check.
void check_holds(at::ScalarType type, const at::Scalar& s);

// Stores scalar arguments a and b both as floats and as integers. Rounds them first if `type` is a half type.
ScalarParams scalar_params(const at::Scalar& a = 0, const at::Scalar& b = 0, Tag type = Tag::none);

// The kernels of one operator. The strides of the operands determine which one runs (metal/elementwise/kernels.h).
class ElementwiseKernels {
 public:
  enum class Order : uint8_t { FIXED, SWAPS };
  // Whether to round a number that is passed as the last operand to the element type. PyTorch's CPU kernels round all
  // numbers, except the last operand of a few operators.
  enum class Number : uint8_t { ROUNDED, EXACT, ALPHA };
  explicit ElementwiseKernels(const std::string& op, int inputs, Order order = Order::FIXED,
                              Number number = Number::ROUNDED);
  // For a binary operator that turns into a different operator if its operands are swapped, such as lt and gt.
  ElementwiseKernels(const std::string& op, const char* mirror);

  // Runs the kernels on an iterator that has been built. Its operands are the output, followed by the inputs, in the
  // element types of the kernels. One input may be a 0-dim CPU tensor, which is passed by value. `tag` is the type in
  // the name of the kernel. If `second` is given, it is the type of the second input, and all operands are dense.
  void run(at::TensorIteratorBase& iter, Tag tag, ScalarParams scalars, Tag second = Tag::none) const;
  bool has(Tag tag) const { return strided_.has(tag); }
  // Returns whether there is a kernel for inputs of different types.
  bool has_mixed(Tag first, Tag second) const { return mixed_.has(first, second); }

 private:
  struct Operands;
  const KernelSet& variant(const Operands&, Tag) const;
  void launch(const Operands&, Tag, Tag second, ScalarParams&) const;
  int inputs_;
  Order order_;
  Number number_;
  KernelSet dense_, rows_10_, rows_01_, strided_, mixed_;
  std::unique_ptr<ElementwiseKernels> mirror_;
};

// Sets the grid for a kernel that loops over rows. `element` is the size in bytes of the largest vectorized type, or 0
// if the kernel is not vectorized. `first` contains the address of each operand's first row.
template <typename Params, size_t N>
Launch& over_rows(Launch& launch, Params& p, size_t element, const std::array<const void*, N>& first) {
  uint64_t bits = 0;
  for (size_t k = 0; k < N; ++k)
    if (p.stride[k][0])  // if the stride is 0, one element is used for the whole row
      bits |= runtime::address_of(first[k]) | uint64_t(p.stride[k][1] | p.stride[k][2] | p.stride[k][3]) * element;
  p.vectorized = element > 0 && runtime::is_vector_aligned(bits);
  return launch.over(p.size[0], element, p.size[1], uint64_t(p.size[2]) * p.size[3]);
}

// The element types for which a row of a table is instantiated. Matches MPSX_FOR_* in metal/lib/instantiate.h.
enum class Types : uint8_t { FLOAT, INT, REAL, BITS, ALL };
constexpr bool covers(Types types, Tag tag) {
  const bool f = is_float_tag(tag), b = tag == Tag::b8, i = !f && !b && tag < Tag::b8;
  switch (types) {
    case Types::FLOAT: return f;
    case Types::INT: return i;
    case Types::REAL: return f || i;
    case Types::BITS: return i || b;
    case Types::ALL: return f || i || b;
  }
  return false;
}

// Converts an input to `common` on this device, and resolves lazy conjugation and negation. A 0-dim CPU tensor is
// returned unchanged, because it is passed by value. Borrows if possible, because an additional reference to a tensor
// that Python holds would require the interpreter lock.
c10::MaybeOwned<Tensor> to_common(const Tensor& t, at::ScalarType common);

}  // namespace mpsx::ops
