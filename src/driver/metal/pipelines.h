// Ready-to-run kernels: caches one pipeline state per key.
#pragma once

#include <memory>

#include "driver/metal/archive.h"
#include "driver/metal/library.h"
#include "driver/reflection.h"

namespace mpsx::driver::metal {

struct MetalKernel final : ReflectedKernel {
  Owned<id<MTLComputePipelineState>> pipeline;
};

class Pipelines {
 public:
  // `reflect` requests argument reflection. The project's own launchers do not need it.
  Pipelines(const Owned<id<MTLDevice>>& device, FunctionLibrary& functions, bool reflect = false)
      : archive_(device, functions.path()), functions_(functions), reflect_(reflect) {}

  // Like Driver::kernel. Throws Error if the function exists but its pipeline cannot be created.
  const MetalKernel* get(std::string_view key);

 private:
  PipelineArchive archive_;
  FunctionLibrary& functions_;
  const bool reflect_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<MetalKernel>> kernels_;  // null for keys known not to exist
};

}  // namespace mpsx::driver::metal
