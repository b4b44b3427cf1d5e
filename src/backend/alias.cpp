#include "backend/alias.h"

#include <ATen/SparseCsrTensorUtils.h>

#include "backend/device.h"

namespace mpsx::backend {
namespace {

// Up to this many tensors, a linear search is faster than a hash table.
constexpr size_t kMaxLinearSearch = 12;

bool is_plain(const at::Tensor& t) { return t.layout() == c10::kStrided && !t.is_quantized() && !t.is_nested(); }

const c10::StorageImpl* storage_of(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool has_storage(const at::Tensor& t) { return t.layout() == c10::kStrided; }

// Returns a view of `storage` on `device` with the metadata of `like`, including the conjugate, negative and inference
// bits.
at::Tensor with_storage(const at::Tensor& like, StoragePtr storage, c10::Device device) {
  auto* from = like.unsafeGetTensorImpl();
  auto made = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(std::move(storage)),
                                                   from->key_set(), from->dtype());
  made->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  made->_change_backend_component_keys(device);
  if (from->is_wrapped_number()) made->set_wrapped_number(true);
  return at::Tensor(std::move(made));
}

}  // namespace

CpuAliases::Pair* CpuAliases::find(const at::Tensor& t, at::Tensor Pair::*side) {
  if (!index_.empty()) {
    auto it = index_.find(t.unsafeGetTensorImpl());
    return it == index_.end() ? nullptr : &pairs_[it->second];
  }
  for (auto& pair : pairs_)
    if ((pair.*side).is_same(t)) return &pair;
  return nullptr;
}

void CpuAliases::add(at::Tensor device, at::Tensor cpu, bool written) {
  pairs_.push_back({std::move(device), std::move(cpu), written});
  if (pairs_.size() <= kMaxLinearSearch) return;
  const auto insert = [this](uint32_t i) {
    const auto& pair = pairs_[i];
    index_.emplace(pair.device.unsafeGetTensorImpl(), i);
    index_.emplace(pair.cpu.unsafeGetTensorImpl(), i);
    if (has_storage(pair.cpu)) index_.emplace(storage_of(pair.cpu), i);
  };
  if (index_.empty())
    for (uint32_t i = 0; i + 1 < pairs_.size(); ++i) insert(i);
  insert(static_cast<uint32_t>(pairs_.size() - 1));
}

at::Tensor CpuAliases::cpu(at::Tensor t, bool written) {
  if (!t.defined()) return t;
  if (!is_mpsx(t.device())) {
    const bool scalar = t.dim() == 0 && !written;  // scalars may be on any device
    if (!scalar && t.device().is_cpu() && !cpu_argument_.defined()) cpu_argument_ = t;
    return t;
  }
  if (auto* pair = find(t, &Pair::device)) {
    pair->written |= written;
    return pair->cpu;
  }
  at::Tensor made = alias(t, written);
  // Some CPU kernels, such as _sparse_mm_reduce_impl, read requires_grad to decide what to compute.
  if (C10_UNLIKELY(t.requires_grad()) && !made.is_inference()) made.unsafeGetTensorImpl()->set_requires_grad(true);
  add(std::move(t), made, written);
  return made;
}

std::optional<at::Tensor> CpuAliases::cpu(const std::optional<at::Tensor>& t) {
  if (!t || !t->defined()) return std::nullopt;
  return cpu(*t);
}

at::Tensor CpuAliases::alias(const at::Tensor& device, bool written) {
  if (C10_UNLIKELY(!is_plain(device))) return alias_layout(device, written);
  auto* storage = device.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  bytes_ += device.nbytes();
  return with_storage(device, cpu_twin(storage), c10::Device(c10::kCPU));
}

StoragePtr CpuAliases::device_storage(const c10::Storage& cpu) {
  auto* wanted = cpu.unsafeGetStorageImpl();
  if (!index_.empty()) {
    auto it = index_.find(wanted);
    if (it != index_.end())
      return StoragePtr::reclaim_copy(const_cast<c10::StorageImpl*>(storage_of(pairs_[it->second].device)));
  } else {
    for (auto& pair : pairs_)
      if (has_storage(pair.cpu) && storage_of(pair.cpu) == wanted)
        return StoragePtr::reclaim_copy(const_cast<c10::StorageImpl*>(storage_of(pair.device)));
  }
  for (auto& a : adopted_)
    if (a.cpu == wanted) return a.device;
  auto made = adopt(StoragePtr::reclaim_copy(wanted));
  adopted_.push_back({wanted, made});
  return made;
}

at::Tensor CpuAliases::device(const at::Tensor& t) {
  if (!t.defined() || !t.device().is_cpu()) return t;
  if (auto* pair = find(t, &Pair::cpu)) return pair->device;
  return view(t);
}

at::Tensor CpuAliases::view(const at::Tensor& cpu) {
  if (C10_UNLIKELY(!is_plain(cpu))) return view_layout(cpu);
  return with_storage(cpu, device_storage(cpu.unsafeGetTensorImpl()->unsafe_storage()), this_device());
}

void CpuAliases::check_same_device(std::string_view op) const {
  TORCH_CHECK(!cpu_argument_.defined() || pairs_.empty(),
              "Expected all tensors to be on the same device, but found at least two devices, ", this_device(),
              " and cpu! (when checking arguments of ", op, ")");
}

void CpuAliases::write_back() {
  for (size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i].written) write_back(pairs_[i]);
}

void CpuAliases::write_back(Pair& pair) {
  if (C10_UNLIKELY(!is_plain(pair.cpu))) return write_back_layout(pair);
  auto* device = pair.device.unsafeGetTensorImpl();
  auto* cpu = pair.cpu.unsafeGetTensorImpl();
  auto* to = device->unsafe_storage().unsafeGetStorageImpl();
  auto* from = cpu->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(to->data_ptr().get() != from->data_ptr().get() || to->nbytes() != from->nbytes())) {
    if (existing_twin(to) == from) {
      rebind(to, StoragePtr::reclaim_copy(from));
    } else {
      device->set_storage_keep_dtype(c10::Storage(device_storage(cpu->unsafe_storage())));
    }
  }
  if (device->sizes() != cpu->sizes() || device->strides() != cpu->strides() ||
      device->storage_offset() != cpu->storage_offset())
    device->set_sizes_and_strides(cpu->sizes(), cpu->strides(), cpu->storage_offset());
  if (C10_UNLIKELY(device->dtype() != cpu->dtype())) device->set_storage_and_dtype(device->storage(), cpu->dtype());
  // linalg_lu_solve.out flips the conjugate bit of its output.
  if (C10_UNLIKELY(pair.device.is_conj() != pair.cpu.is_conj())) pair.device._set_conj(pair.cpu.is_conj());
  if (C10_UNLIKELY(pair.device.is_neg() != pair.cpu.is_neg())) pair.device._set_neg(pair.cpu.is_neg());
}

at::Tensor cpu_view(const at::Tensor& device) {
  TORCH_CHECK(is_mpsx(device.device()), "cpu_view: expected a tensor on mpsx, got one on ", device.device());
  CpuAliases aliases;
  return aliases.cpu(device);
}

at::Tensor device_view(const at::Tensor& cpu) {
  TORCH_CHECK(cpu.device().is_cpu(), "device_view: expected a tensor on cpu, got one on ", cpu.device());
  CpuAliases aliases;
  return aliases.device(cpu);
}

}  // namespace mpsx::backend
