// Operators that change the storage or size of a tensor in place (resize_, set_), and record_stream.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <torch/library.h>

#include "backend/allocator.h"
#include "backend/device.h"
#include "backend/storage.h"

namespace mpsx::backend {
namespace {

// Grows the storage so that it fits the tensor's sizes and strides.
void reserve(c10::TensorImpl* tensor) {
  if (tensor->numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(tensor->sizes(), tensor->strides(), tensor->dtype().itemsize(),
                                                         tensor->storage_offset());
  auto* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() < needed) resize_storage(storage, needed);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  auto* tensor = self.unsafeGetTensorImpl();
  const size_t before = self.storage().nbytes();
  if (tensor->sizes() != size) {
    tensor->set_sizes_contiguous(size);
    reserve(tensor);
  }
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "resize_: unsupported memory format ", *format);
    tensor->empty_tensor_restride(*format);
  }
  const auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()))
    at::native::fill_resize_deterministic_(self, int64_t(before));
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, c10::Storage storage, int64_t offset, c10::IntArrayRef size,
                               c10::IntArrayRef stride) {
  for (const int64_t step : stride)
    TORCH_CHECK(step >= 0, "set_: Negative strides are not supported at the moment, got strides: ", stride);
  at::native::checkSetStorage(self, std::move(storage), offset, size, stride);
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_offset(offset);
  if (stride.data() == nullptr) {
    tensor->set_sizes_contiguous(size);
  } else {
    tensor->set_sizes_and_strides(size, stride);
  }
  reserve(tensor);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(storage), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator(), /*resizable=*/true);
  return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_empty);
  m.impl("record_stream", record_stream);
}

// Also register set_ for quantized tensors. The fallback would pass a device storage to the CPU kernel.
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) { m.impl("set_.source_Storage_storage_offset", set_storage_offset); }

}  // namespace
}  // namespace mpsx::backend
