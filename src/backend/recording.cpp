#include "backend/recording.h"

#include <torch/library.h>

#include <algorithm>

#include "backend/generator.h"
#include "backend/storage.h"

namespace mpsx::backend {
namespace {

runtime::RandomState random_state() {
  const at::Generator& generator = default_generator();
  return {generator.current_seed(), generator.get_offset()};
}

// Returns whether the tensor's memory is part of a recording, such as the results of a recorded forward pass.
bool is_recorded(const at::Tensor& tensor) {
  const runtime::Block* const block = block_of(tensor.storage().unsafeGetStorageImpl());
  return block && block->pool.load(std::memory_order_acquire);
}

}  // namespace

void Recording::begin(bool launches) {
  TORCH_CHECK(!runtime::active_pool, "Recording: this thread is already recording");
  if (launches) {
    random_ = random_state();
    launches_.start(random_);
    runtime::active_recording = &launches_;
  }
  runtime::active_pool = &launches_.pool();
}

void Recording::end() {
  if (runtime::recording() == &launches_) {
    const runtime::RandomState now = random_state();
    drawn_ = now.offset - random_.offset;
    if (now.seed != random_.seed) launches_.reject("a new random seed");
  }
  runtime::active_recording = nullptr;
  runtime::active_pool = nullptr;
}

std::string Recording::finish(const std::vector<at::Tensor>& in_place, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& fixed) {
  for (const at::Tensor& t : in_place) in_place_.push_back(t.data_ptr());
  for (const at::Tensor& t : outputs) {
    const size_t bytes = t.storage().nbytes();
    if (bytes && !owns(t)) launches_.reject("a result in memory that is not the recording's");
    runtime::Block* const block = bytes ? block_of(t.storage().unsafeGetStorageImpl()) : nullptr;
    const auto same = [&](const OutputBlock& b) { return b.block == block; };
    const auto known = std::find_if(blocks_.begin(), blocks_.end(), same);
    outputs_.push_back({size_t(known - blocks_.begin()), at::DimVector(t.sizes()), at::DimVector(t.strides()),
                        t.storage_offset(), t.dtype(), t.is_conj(), t.is_neg()});
    if (known != blocks_.end()) continue;
    const bool kept = std::any_of(fixed.begin(), fixed.end(), [&](const at::Tensor& f) {
      return block_of(f.storage().unsafeGetStorageImpl()) == block;
    });
    blocks_.push_back({block, bytes, kept ? 2u : 1u});
  }
  return launches_.finish();
}

bool Recording::owns(const at::Tensor& tensor) {
  const runtime::Block* const block = block_of(tensor.storage().unsafeGetStorageImpl());
  return block && block->pool.load(std::memory_order_acquire) == &launches_.pool();
}

bool Recording::matches(const std::vector<at::Tensor>& in_place) {
  TORCH_CHECK(in_place.size() == in_place_.size(), "Recording: expected ", in_place_.size(), " tensors, got ",
              in_place.size());
  for (size_t i = 0; i < in_place.size(); ++i)
    if (in_place[i].data_ptr() != in_place_[i]) return false;
  return true;
}

bool Recording::is_idle() {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const OutputBlock& b) {
    return !b.block || b.block->references.load(std::memory_order_acquire) <= b.idle_references;
  });
}

std::vector<at::Tensor> Recording::outputs() {
  std::vector<StoragePtr> storages;
  for (const OutputBlock& b : blocks_) storages.push_back(storage_over(b.block, b.bytes));
  std::vector<at::Tensor> made;
  for (const Output& o : outputs_) {
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storages[o.block]), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), o.dtype);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(o.sizes, o.strides, o.offset);
    if (o.conjugate) tensor._set_conj(true);
    if (o.negative) tensor._set_neg(true);
    made.push_back(std::move(tensor));
  }
  return made;
}

bool Recording::replay() {
  // If the CPU has read a result, this migrates its pages back to the device.
  for (const OutputBlock& b : blocks_)
    if (b.block) (void)runtime::locate(b.block->data);
  const PhiloxState now = next_philox(std::nullopt, drawn_);
  if (launches_.replay({now.seed, now.offset})) return true;
  at::Generator generator = default_generator();
  generator.set_offset(now.offset);
  return false;
}

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  m.class_<Recording>("Recording")
      .def(torch::init<>())
      .def("begin", &Recording::begin)
      .def("end", &Recording::end)
      .def("finish", &Recording::finish)
      .def("owns", &Recording::owns)
      .def("matches", &Recording::matches)
      .def("is_idle", &Recording::is_idle)
      .def("outputs", &Recording::outputs)
      .def("replay", &Recording::replay)
      .def("launches", &Recording::launches)
      .def_static("is_recorded", &is_recorded);
}

}  // namespace mpsx::backend
