#include "ops/elementwise/copy.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Copy.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "backend/alias.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing.h"
#include "runtime/stream.h"

namespace mpsx::ops {
namespace {

// Launches a copy kernel. `to_bytes` and `from_bytes` are the element sizes.
void launch(runtime::KernelEntry& kernel, void* to, const void* from, int64_t to_bytes, int64_t from_bytes,
            const Strided<2>& loops, bool rows) {
  StridedParams p{};
  loops.each(p, 4, [&](const auto& offsets) {
    Launch launch(kernel);
    const std::array<const void*, 2> first{static_cast<char*>(to) + offsets[0] * to_bytes,
                                           static_cast<const char*>(from) + offsets[1] * from_bytes};
    launch.pointer(first[0], Access::write).pointer(first[1]).bytes(p);
    over_rows(launch, p, rows ? size_t(std::max(to_bytes, from_bytes)) : 0, first).run();
  });
}

void transpose(runtime::KernelEntry& kernel, void* to, const void* from, int64_t bytes, const Strided<2>& loops) {
  constexpr uint32_t kThreads = 256;
  const uint32_t side = transpose_side(uint32_t(bytes));
  StridedParams p{};
  loops.each(p, 4, [&](const auto& offsets) {
    Launch(kernel)
        .pointer(static_cast<char*>(to) + offsets[0] * bytes)
        .pointer(static_cast<const char*>(from) + offsets[1] * bytes)
        .bytes(p)
        .groups({uint32_t(ceil_div(p.size[0], side)), uint32_t(ceil_div(p.size[1], side)), p.size[2] * p.size[3]},
                kThreads)
        .work(uint64_t(side) * side)
        .run();
  });
}

bool cast_on_device(const Tensor& target, const Tensor& source, const Strided<2>& loops) {
  static const KernelSet dense("cast_dense"), strided("cast_strided");
  const Tag from = tag_of(source), to = tag_of(target);
  if (from == Tag::none || to == Tag::none || !strided.has(from, to)) return false;
  if (loops.inner(0) == 1 && loops.inner(1) == 0) {  // cast one element per row, and then copy it along the row
    Strided<2> once, along;
    for (size_t d = 0; d < loops.rank(); ++d) {
      if (d > 0) once.push(loops.sizes[d], {loops.strides[0][d], loops.strides[1][d]});
      along.push(loops.sizes[d], {loops.strides[0][d], d > 0 ? loops.strides[0][d] : 0});
    }
    cast_on_device(target, source, once);
    copy_strided(target.mutable_data_ptr(), target.const_data_ptr(), target.element_size(), along);
    return true;
  }
  const bool rows = loops.inner(0) == 1 && loops.inner(1) == 1;
  launch((rows ? dense : strided).get(from, to), target.mutable_data_ptr(), source.const_data_ptr(),
         target.element_size(), source.element_size(), loops, rows);
  return true;
}

}  // namespace

bool is_transposition(const Strided<2>& loops) {
  return loops.rank() >= 2 && loops.inner(0) == 1 && loops.inner(1) > 1 && loops.strides[1][1] == 1 &&
         std::min(loops.sizes[0], loops.sizes[1]) >= kTransposeTile / 2;
}

void copy_strided(void* to, const void* from, int64_t bytes, const Strided<2>& loops) {
  static const KernelSet dense("copy_dense"), repeated("copy_repeated"), strided("copy_strided"),
      transposed("copy_transposed");
  const Tag tag = bits_tag(bytes);
  if (is_transposition(loops)) return transpose(transposed.get(tag), to, from, bytes, loops);
  const bool rows = loops.inner(0) == 1 && (loops.inner(1) == 1 || loops.inner(1) == 0);
  const KernelSet& set = !rows ? strided : loops.inner(1) ? dense : repeated;
  launch(set.get(tag), to, from, bytes, bytes, loops, rows);
}

bool copy_on_device(const Tensor& target, const Tensor& source) {
  if (!is_plain(target) || !is_plain(source)) return false;
  const auto is_byte = [](const Tensor& t) { return t.scalar_type() == at::kByte || t.scalar_type() == at::kChar; };
  const bool same = target.scalar_type() == source.scalar_type() || (is_byte(target) && is_byte(source));
  if (same && bits_tag(source) == Tag::none) return false;
  TORCH_CHECK(at::is_expandable_to(source.sizes(), target.sizes()), "output with shape ", target.sizes(),
              " doesn't match the broadcast shape ", at::infer_size(source.sizes(), target.sizes()));
  at::assert_no_internal_overlap(target);
  at::assert_no_partial_overlap(target, source);
  if (target.numel() == 0) return true;
  const auto from = at::inferExpandGeometry_dimvector(source.sizes(), source.strides(), target.sizes());
  const auto loops = Strided<2>::ordered(target.sizes(), {target.strides(), from.strides});
  if (!same) return cast_on_device(target, source, loops);
  copy_strided(target.mutable_data_ptr(), source.const_data_ptr(), source.element_size(), loops);
  return true;
}

namespace {

bool copied_on_device(const Tensor& to, const Tensor& from) {
  if (to.device().type() != at::kPrivateUse1 || from.device().type() != at::kPrivateUse1) return false;
  if (to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg()) return false;
  return copy_on_device(to, from);
}

// Copies between CPU and device memory. Uses the driver's copy, because CPU accesses would migrate pages of managed
// memory. If the layouts or dtypes differ, first copies a dense version of the source and then converts it on the
// target's device.
bool copy_across_devices(const Tensor& to, const Tensor& from) {
  if (runtime::driver().traits().memory != driver::Memory::managed) return false;
  const bool down = to.is_cpu() && from.device().type() == at::kPrivateUse1;
  if (!down && !(from.is_cpu() && to.device().type() == at::kPrivateUse1)) return false;
  if (to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg() || !to.has_storage() || !from.has_storage())
    return false;
  if (to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && to.strides() == from.strides() &&
      to.is_non_overlapping_and_dense()) {
    if (to.numel()) runtime::copy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
    return true;
  }
  if (to.is_conj() || to.is_neg()) return false;
  const auto dense = from.expect_contiguous();
  const Tensor across = at::empty(from.sizes(), from.options().device(to.device()));
  if (from.numel()) runtime::copy(across.mutable_data_ptr(), dense->const_data_ptr(), across.nbytes());
  to.copy_(across);
  return true;
}

// copy_ must be overridden in addition to _copy_from. PyTorch's copy_ resolves conjugate bits with clone(), which would
// recurse.
Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  // Forward-mode AD creates ZeroTensors, which have no memory.
  TORCH_CHECK(!self._is_zerotensor(), "copy_: ZeroTensors are immutable; use clone() to have a tensor of zeros");
  if (source._is_zerotensor()) return self.zero_();
  if (self.is_same(source) || copied_on_device(self, source) || copy_across_devices(self, source)) return self;
  backend::CpuAliases aliases;
  Tensor to = aliases.cpu(self), from = aliases.cpu(source);
  at::native::copy_(to, from, non_blocking);
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  Tensor target = to;
  copy_(target, self, non_blocking);
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, /*non_blocking=*/false);
}

// Reads a scalar without creating a CPU alias, because training loops read the loss in every step.
at::Scalar local_scalar(const Tensor& self) {
  if (!self.has_storage() || self.is_conj() || self.is_neg() || self._is_zerotensor()) {
    backend::CpuAliases aliases;
    return at::_local_scalar_dense(aliases.cpu(self).resolve_conj().resolve_neg());
  }
  alignas(16) char data[16];
  runtime::read_number(data, self.const_data_ptr(), self.element_size());
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense",
                 AT_WRAP([&] { value = at::Scalar(*reinterpret_cast<const scalar_t*>(data)); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
  return value;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "copy_", &copy_);
  impl(m, "_copy_from", &copy_from);
  impl(m, "_copy_from_and_resize", &copy_from_and_resize);
  impl(m, "_local_scalar_dense", &local_scalar);
}

}  // namespace mpsx::ops
