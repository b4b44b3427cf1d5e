// A disk cache of compiled pipelines (an MTLBinaryArchive). It only saves time: where it fails, pipelines are compiled
// again.
#pragma once

#include <mutex>
#include <string>

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

class PipelineArchive {
 public:
  // `library`: the file with the kernels; if it is empty, nothing is cached.
  PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library);
  ~PipelineArchive();  // saves
  PipelineArchive(const PipelineArchive&) = delete;
  PipelineArchive& operator=(const PipelineArchive&) = delete;

  // Returns a pipeline from the archive, or compiles one and adds it. Returns null and sets `reason` on failure.
  // `reflection`, if not null, receives the function's arguments (owned by the caller's pool); this bypasses the
  // archive, because only a newly compiled pipeline has them.
  Owned<id<MTLComputePipelineState>> make(id<MTLFunction> function, MTLComputePipelineReflection** reflection,
                                          std::string* reason);
  // Writes the file if the archive has changed.
  void save() noexcept;

 private:
  void open();
  void write();
  std::string find() const;

  const Owned<id<MTLDevice>> device_;
  std::string folder_, name_;  // files are <name>.<hash of the contents>.binarchive; without a name nothing is cached
  std::mutex mutex_;
  Owned<id<MTLBinaryArchive>> archive_;
  bool changed_ = false;
};

}  // namespace mpsx::driver::metal
