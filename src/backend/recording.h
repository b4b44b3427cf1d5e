// torch.classes.mpsx.Recording: the launches of a compiled graph, and the tensors that they produce.
#pragma once

#include <torch/custom_class.h>

#include <string>
#include <vector>

#include "runtime/launch_recording.h"

namespace mpsx::backend {

class Recording final : public torch::CustomClassHolder {
 public:
  // Starts to take the calling thread's allocations from the recording's memory and, if `launches` is true, to record
  // its launches.
  void begin(bool launches);
  void end();
  // Call this after the last end(). `in_place` are the tensors that every replay must receive at the same addresses.
  // `outputs` are the results to return, and `fixed` are tensors in the recording's memory that the caller keeps.
  // Returns why the recording cannot be replayed, or an empty string.
  std::string finish(const std::vector<at::Tensor>& in_place, const std::vector<at::Tensor>& outputs,
                     const std::vector<at::Tensor>& fixed);
  // Returns whether the tensor uses memory of this recording.
  bool owns(const at::Tensor&);
  // Returns whether these tensors are at the addresses of `in_place`, and no output of an earlier call is still in use.
  bool matches(const std::vector<at::Tensor>& in_place);
  bool is_idle();
  // Returns new tensors over the memory of the outputs.
  std::vector<at::Tensor> outputs();
  // Launches everything again. Returns false, without launching anything, if memory outside the recording has moved.
  bool replay();
  int64_t launches() { return int64_t(launches_.size()); }

 private:
  struct OutputBlock {
    runtime::Block* block;  // null if the storage is empty
    size_t bytes;
    uint32_t idle_references;
  };
  struct Output {
    size_t block;  // index in blocks_
    at::DimVector sizes, strides;
    int64_t offset;
    caffe2::TypeMeta dtype;
    bool conjugate, negative;
  };

  runtime::LaunchRecording launches_;
  runtime::RandomState random_;  // before the recorded launches
  uint64_t drawn_ = 0;           // number of Philox blocks that the launches use
  std::vector<const void*> in_place_;
  std::vector<OutputBlock> blocks_;
  std::vector<Output> outputs_;
};

}  // namespace mpsx::backend
