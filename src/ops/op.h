// Shared by all launchers: element types, memory arguments, and the way back to the CPU for what has no kernel.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include "backend/boxed.h"
#include "backend/fallback.h"
#include "runtime/launch.h"

namespace mpsx::ops {

using at::Tensor;
using runtime::KernelSet;
using runtime::Launch;
using runtime::Tag;

// The tag of an element type; Tag::none where kernels have no such type (float64, complex128, …).
constexpr Tag tag_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return Tag::f32;
    case at::kHalf: return Tag::f16;
    case at::kBFloat16: return Tag::bf16;
    case at::kLong: return Tag::i64;
    case at::kInt: return Tag::i32;
    case at::kShort: return Tag::i16;
    case at::kChar: return Tag::i8;
    case at::kByte: return Tag::u8;
    case at::kBool: return Tag::b8;
    case at::kComplexFloat: return Tag::c64;
    default: return Tag::none;
  }
}
inline Tag tag_of(const Tensor& t) { return tag_of(t.scalar_type()); }
constexpr bool is_float_tag(Tag t) { return t == Tag::f32 || t == Tag::f16 || t == Tag::bf16; }

// A tensor whose elements a kernel may read as they lie: strided, on this device, without lazy conjugation or negation.
inline bool is_plain(const Tensor& t) {
  return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1 && !t.is_conj() && !t.is_neg();
}

// The memory of a tensor that may be undefined (an absent bias).
inline const void* data_or_null(const Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
inline void* mutable_data_or_null(const Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; }

// Whether tensors begin with packs (runtime::in_packs), those that are undefined aside.
template <typename... Tensors>
bool aligned(const Tensors&... t) {
  return runtime::in_packs((runtime::address_of(data_or_null(t)) | ...));
}

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Whether kernels of floating-point types, or of real numbers, take a tensor.
inline bool has_float_kernel(const Tensor& t) { return is_plain(t) && is_float_tag(tag_of(t)); }
inline bool has_number_kernel(const Tensor& t) { return is_plain(t) && tag_of(t) < Tag::c64; }

// An argument as the boxed fallback takes it.
template <typename T>
const T& boxed(const T& argument) {
  return argument;
}
inline std::vector<Tensor> boxed(const at::ITensorListRef& tensors) { return {tensors.begin(), tensors.end()}; }

// Runs an operator of aten ("add.Tensor") on a stack of its arguments through the boxed fallback.
void run_fallback(std::string_view name, torch::jit::Stack& stack);

// The same for inputs that a native operator has no kernel for. Counted and warned about like any fallback. Returns
// what the operator returns (for out= and in-place forms: the tensor written).
template <typename Result, typename... Arguments>
Result fall_back(std::string_view name, const Arguments&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, boxed(arguments)...);
  run_fallback(name, stack);
  return backend::PopResult<Result>::pop(stack);
}

}  // namespace mpsx::ops
