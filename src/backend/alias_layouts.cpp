// Aliases sparse, compressed sparse, nested and quantized tensors. Rebuilds the container for the other device, and
// aliases the tensors or the storage inside it.
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/InferenceMode.h>

#include "backend/alias.h"
#include "backend/device.h"

namespace mpsx::backend {
namespace {

using at::SparseCsrTensorImpl;
using at::SparseTensorImpl;
using at::native::NestedTensorImpl;
using c10::DispatchKey;
using c10::DispatchKeySet;

SparseTensorImpl* coo(const at::Tensor& t) { return static_cast<SparseTensorImpl*>(t.unsafeGetTensorImpl()); }
SparseCsrTensorImpl* compressed(const at::Tensor& t) {
  return static_cast<SparseCsrTensorImpl*>(t.unsafeGetTensorImpl());
}

void fill_coo(SparseTensorImpl* to, SparseTensorImpl* from, const at::Tensor& indices, const at::Tensor& values) {
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
  to->set_indices_and_values_unsafe(indices, values);
  to->set_coalesced(from->coalesced());
}

// The new container needs the autograd keys of its source: AutogradNestedTensor is not in any backend's key set, and
// inference mode is a property of the tensor, not of the calling thread. The constructors of sparse tensors derive the
// keys from the thread's inference mode, so make_coo and make_compressed set that mode first.
at::Tensor make_coo(const at::Tensor& from, DispatchKey key, const at::Tensor& indices, const at::Tensor& values) {
  const c10::InferenceMode mode(from.is_inference());
  auto made = c10::make_intrusive<SparseTensorImpl>(DispatchKeySet(key), from.dtype());
  fill_coo(made.get(), coo(from), indices, values);
  return at::Tensor(std::move(made));
}

at::Tensor make_compressed(const at::Tensor& from, DispatchKey key, c10::Device device, const at::Tensor& compressed_i,
                           const at::Tensor& plain_i, const at::Tensor& values) {
  const c10::InferenceMode mode(from.is_inference());
  auto made = c10::make_intrusive<SparseCsrTensorImpl>(DispatchKeySet(key), device, from.layout(), from.dtype());
  made->set_member_tensors(compressed_i, plain_i, values, from.sizes());
  return at::Tensor(std::move(made));
}

at::Tensor make_nested(const at::Tensor& from, c10::Device device, StoragePtr storage) {
  auto* source = static_cast<NestedTensorImpl*>(from.unsafeGetTensorImpl());
  auto made = c10::make_intrusive<NestedTensorImpl>(c10::TensorImpl::VIEW, from, source->get_nested_sizes(),
                                                    source->get_nested_strides(), source->get_storage_offsets());
  made->set_storage_keep_dtype(c10::Storage(std::move(storage)));
  made->_change_backend_component_keys(device);
  return at::Tensor(std::move(made));
}

at::Tensor make_quantized(const at::Tensor& from, c10::Device device, StoragePtr storage) {
  auto* source = static_cast<at::QTensorImpl*>(from.unsafeGetTensorImpl());
  auto made = c10::make_intrusive<at::QTensorImpl>(c10::TensorImpl::VIEW, c10::Storage(std::move(storage)),
                                                   source->key_set(), from.dtype(), source->quantizer());
  made->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  made->_change_backend_component_keys(device);
  return at::Tensor(std::move(made));
}

}  // namespace

at::Tensor CpuAliases::alias_layout(const at::Tensor& t, bool written) {
  if (t.is_sparse())
    return make_coo(t, DispatchKey::SparseCPU, cpu(coo(t)->indices(), written), cpu(coo(t)->values(), written));
  if (at::sparse_csr::is_sparse_compressed(t)) {
    auto* from = compressed(t);
    return make_compressed(t, DispatchKey::SparseCsrCPU, c10::Device(c10::kCPU),
                           cpu(from->compressed_indices(), written), cpu(from->plain_indices(), written),
                           cpu(from->values(), written));
  }
  auto twin = cpu_twin(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  bytes_ += twin->nbytes();
  if (t.is_nested()) return make_nested(t, c10::Device(c10::kCPU), std::move(twin));
  TORCH_CHECK(t.is_quantized(), "mpsx: no CPU alias for a tensor of layout ", t.layout());
  return make_quantized(t, c10::Device(c10::kCPU), std::move(twin));
}

at::Tensor CpuAliases::view_layout(const at::Tensor& t) {
  if (t.is_sparse())
    return make_coo(t, DispatchKey::SparsePrivateUse1, device(coo(t)->indices()), device(coo(t)->values()));
  if (at::sparse_csr::is_sparse_compressed(t)) {
    auto* from = compressed(t);
    return make_compressed(t, DispatchKey::SparseCsrPrivateUse1, this_device(), device(from->compressed_indices()),
                           device(from->plain_indices()), device(from->values()));
  }
  if (t.is_mkldnn()) return t;
  auto storage = device_storage(t.unsafeGetTensorImpl()->unsafe_storage());
  if (t.is_nested()) return make_nested(t, this_device(), std::move(storage));
  TORCH_CHECK(t.is_quantized(), "mpsx: no device view for a tensor of layout ", t.layout());
  return make_quantized(t, this_device(), std::move(storage));
}

void CpuAliases::write_back_layout(Pair& pair) {
  // Copy the tensors before calling device(), which may add pairs and thereby invalidate `pair`.
  const at::Tensor to = pair.device, from = pair.cpu;
  if (from.is_sparse()) {
    fill_coo(coo(to), coo(from), device(coo(from)->indices()), device(coo(from)->values()));
  } else if (at::sparse_csr::is_sparse_compressed(from)) {
    auto* source = compressed(from);
    compressed(to)->set_member_tensors(device(source->compressed_indices()), device(source->plain_indices()),
                                       device(source->values()), source->sizes());
  } else if (from.is_quantized()) {
    auto* source = static_cast<at::QTensorImpl*>(from.unsafeGetTensorImpl());
    auto* target = static_cast<at::QTensorImpl*>(to.unsafeGetTensorImpl());
    auto storage = source->unsafe_storage();
    if (target->unsafe_storage().data() != storage.data() || target->unsafe_storage().nbytes() != storage.nbytes())
      target->set_storage_keep_dtype(c10::Storage(device_storage(storage)));
    target->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
    target->set_quantizer_(source->quantizer());
  }
}

}  // namespace mpsx::backend
