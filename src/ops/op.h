// Definitions that all launchers share: element types, memory arguments, and the CPU fallback.
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
using driver::Access;
using runtime::KernelSet;
using runtime::Launch;
using runtime::Tag;

// Returns the tag of an element type, or Tag::none if there are no kernels for it (float64, complex128, …).
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

// Returns whether kernels can read a tensor directly. It must be strided, be on this device, and not be lazily
// conjugated or negated.
inline bool is_plain(const Tensor& t) {
  return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1 && !t.is_conj() && !t.is_neg();
}

// Returns a pointer to the tensor's memory, or null for an undefined tensor such as an absent bias.
inline const void* data_or_null(const Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }

// Returns whether all defined tensors are aligned for vector access (runtime::is_vector_aligned).
template <typename... Tensors>
bool aligned(const Tensors&... t) {
  return runtime::is_vector_aligned((runtime::address_of(data_or_null(t)) | ...));
}

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Throws unless all tensors are on the same device as the first one.
template <typename... Tensors>
void check_same_device(std::string_view op, const Tensor& first, const Tensors&... others) {
  for (const Tensor* t : {&others...})
    TORCH_CHECK(t->device() == first.device(), op,
                ": Expected all tensors to be on the same device, but found at least two devices, ", first.device(),
                " and ", t->device());
}

// Return whether kernels support the tensor, if there are kernels for floating-point types or for all real types.
inline bool has_float_kernel(const Tensor& t) { return is_plain(t) && is_float_tag(tag_of(t)); }
inline bool has_number_kernel(const Tensor& t) { return is_plain(t) && tag_of(t) < Tag::c64; }

// Converts an argument to its boxed form.
template <typename T>
const T& boxed(const T& argument) {
  return argument;
}
inline std::vector<Tensor> boxed(const at::ITensorListRef& tensors) { return {tensors.begin(), tensors.end()}; }

// Runs an aten operator ("add.Tensor") through the boxed fallback, with its arguments on a stack.
void run_fallback(std::string_view name, torch::jit::Stack& stack);

// Falls back to the CPU because no kernel supports the inputs. Like every fallback, this is counted and may warn.
// Returns the operator's result. For out= and in-place forms, this is the tensor that was written.
template <typename Result, typename... Arguments>
Result fall_back(std::string_view name, const Arguments&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, boxed(arguments)...);
  run_fallback(name, stack);
  return backend::PopResult<Result>::pop(stack);
}

}  // namespace mpsx::ops
