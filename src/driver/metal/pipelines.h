// Caches one kernel that is ready to run (a pipeline state) per key.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "driver/metal/archive.h"
#include "driver/metal/library.h"
#include "driver/reflection.h"

namespace mpsx::driver::metal {

struct MetalKernel final : ReflectedKernel {
  Owned<id<MTLComputePipelineState>> pipeline;
  // The device on which pipeline_for() builds more pipelines. Null unless the source uses tensor operations.
  Owned<id<MTLDevice>> device;
  Owned<id<MTLFunction>> function;

  // Returns the pipeline to dispatch. Kernels with cooperative tensors should be compiled for a fixed threadgroup size
  // (requiredThreadsPerThreadgroup, since macOS 26), so there is one pipeline for each size in use.
  id<MTLComputePipelineState> pipeline_for(const Dispatch& dispatch) const {
    return function ? required_pipeline(dispatch) : pipeline.get();
  }

 private:
  id<MTLComputePipelineState> required_pipeline(const Dispatch&) const;
  mutable std::mutex mutex_;
  mutable std::map<std::array<uint32_t, 3>, Owned<id<MTLComputePipelineState>>> required_;
};

class Pipelines {
 public:
  // If `reflect` is true, asks the compiler for information about arguments. The project's own launchers do not need
  // it.
  Pipelines(const Owned<id<MTLDevice>>& device, FunctionLibrary& functions, bool reflect = false)
      : device_(device), archive_(device, functions.path()), functions_(functions), reflect_(reflect) {}

  // Like Driver::kernel. Throws Error if the function exists but its pipeline cannot be created.
  const MetalKernel* get(std::string_view key);

 private:
  const Owned<id<MTLDevice>> device_;
  PipelineArchive archive_;
  FunctionLibrary& functions_;
  const bool reflect_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<MetalKernel>> kernels_;  // null if there is no kernel with this key
};

}  // namespace mpsx::driver::metal
