// Kernels ready to run: a pipeline state for each key, made once.
#pragma once

#include <memory>

#include "driver/metal/archive.h"
#include "driver/metal/library.h"
#include "driver/shader_facts.h"

namespace mpsx::driver::metal {

struct MetalKernel final : ReflectedKernel {
  Owned<id<MTLComputePipelineState>> pipeline;
};

class Pipelines {
 public:
  // `reflect`: whether to look up the arguments of kernels, which our own launchers know.
  Pipelines(const Owned<id<MTLDevice>>& device, FunctionLibrary& functions, bool reflect = false)
      : archive_(device, functions.path()), functions_(functions), reflect_(reflect) {}

  // As Driver::kernel. Throws Error where the function exists but makes no pipeline.
  const MetalKernel* get(std::string_view key);

 private:
  PipelineArchive archive_;
  FunctionLibrary& functions_;
  const bool reflect_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<MetalKernel>> kernels_;  // null: known not to exist
};

}  // namespace mpsx::driver::metal
