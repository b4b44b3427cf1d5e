// Collectives that gloo's threads run.
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace mpsx::backend {

struct GlooCall {
  c10::intrusive_ptr<c10d::Work> work;  // gloo's
  std::vector<at::Tensor> results;      // on the device
  c10::intrusive_ptr<c10::ivalue::Future> future;
};

// Keeps the call alive until gloo's thread has released its work. Otherwise, that thread might release the last
// reference to a Python object: a tensor, or the context that the caller's backward pass has set. If the interpreter
// has shut down by then, the process aborts (PyTorch issue 190489). destroy_process_group() does not prevent this,
// because DistributedDataParallel keeps the group and its threads.
std::shared_ptr<GlooCall> keep_alive(GlooCall call);

// Frees all calls that only keep_alive() refers to.
void free_finished_calls();

}  // namespace mpsx::backend
