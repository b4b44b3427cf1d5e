#include "backend/mps_interop.h"

#include <torch/mps.h>

#include "backend/device.h"
#include "backend/storage.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace mpsx::backend {
namespace {

const c10::Device kMps(c10::kMPS, 0);

at::Tensor with_storage(c10::Storage storage, const at::Tensor& like, int64_t offset, c10::DispatchKey key) {
  auto made = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made->set_sizes_and_strides(like.sizes(), like.strides(), offset);
  at::Tensor tensor(std::move(made));
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

void check(const char* op, const at::Tensor& t, c10::DeviceType type) {
  TORCH_CHECK(t.device().type() == type && t.layout() == at::kStrided && !t.is_quantized(), op,
              ": expected a strided tensor on ", type == c10::kMPS ? "mps" : "mpsx", ", got one on ", t.device(),
              t.layout() == at::kStrided ? "" : c10::str(" of layout ", t.layout()));
}

// Returns a device tensor over the memory of an mps tensor. The caller must first wait for PyTorch's work on `t`.
at::Tensor view_of_mps(const char* op, const at::Tensor& t) {
  check(op, t, c10::kMPS);
  const c10::Storage& theirs = t.storage();
  c10::DataPtr data;
  try {
    // The data pointer of an mps tensor is its MTLBuffer, and its storage offset is a position in that buffer.
    data = theirs.data() ? shared_data(const_cast<void*>(theirs.data()), std::make_shared<c10::Storage>(theirs))
                         : allocate_data(0);
  } catch (const driver::Error& e) {
    TORCH_CHECK(false, op, ": ", e.what());
  }
  c10::Storage ours(c10::Storage::use_byte_size_t(), theirs.nbytes(), std::move(data), nullptr, /*resizable=*/false);
  return with_storage(std::move(ours), t, t.storage_offset(), c10::DispatchKey::PrivateUse1);
}

// Waits for mps before releasing our memory, because PyTorch does not report when its queue no longer uses it.
void wait_and_release(void* context) {
  try {
    torch::mps::synchronize();
  } catch (const std::exception&) {  // synchronization can fail at process exit
  }
  delete static_cast<c10::Storage*>(context);
}

// Returns an mps tensor over the memory of a device tensor. The caller must first wait for our work on `t`.
at::Tensor view_for_mps(const at::Tensor& t) {
  check("to_mps", t, kDeviceType);
  const c10::Storage& ours = t.storage();
  const auto location = runtime::locate(ours.data());  // location.offset is a multiple of 64
  const auto itemsize = int64_t(t.itemsize());
  c10::DataPtr data(nullptr, kMps);
  if (location.handle) data = {location.handle, new c10::Storage(ours), &wait_and_release, kMps};
  c10::Storage theirs(c10::Storage::use_byte_size_t(), location.offset + ours.nbytes(), std::move(data),
                      at::GetAllocator(c10::kMPS), /*resizable=*/false);
  return with_storage(std::move(theirs), t, int64_t(location.offset) / itemsize + t.storage_offset(),
                      c10::DispatchKey::MPS);
}

}  // namespace

at::Tensor from_mps(const at::Tensor& t) {
  check("from_mps", t, c10::kMPS);
  torch::mps::synchronize();
  return view_of_mps("from_mps", t);
}

at::Tensor to_mps(const at::Tensor& t) {
  check("to_mps", t, kDeviceType);
  const auto& driver = runtime::driver();
  TORCH_CHECK(driver.traits().memory == driver::Memory::buffers, "to_mps: expected the metal driver, got the ",
              driver.info().name, " driver");
  TORCH_CHECK(torch::mps::is_available(), "to_mps: PyTorch's mps device is not available");
  runtime::prepare_cpu_access(t.storage().data());
  return view_for_mps(t);
}

MpsArguments::MpsArguments() { torch::mps::synchronize(); }

at::Tensor MpsArguments::from_mps(const at::Tensor& mps) {
  for (const Pair& pair : pairs_)
    if (pair.mps.is_same(mps)) return pair.device;
  pairs_.push_back({mps, view_of_mps("mpsx", mps)});
  return pairs_.back().device;
}

at::Tensor MpsArguments::to_mps(const at::Tensor& device) {
  if (!device.defined() || !is_mpsx(device.device())) return device;
  runtime::prepare_cpu_access(device.storage().data());
  for (const Pair& pair : pairs_)
    if (pair.device.is_same(device)) return pair.mps;
  return view_for_mps(device);
}

}  // namespace mpsx::backend
