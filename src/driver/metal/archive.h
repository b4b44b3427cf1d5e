// An on-disk cache of compiled pipelines (an MTLBinaryArchive). If the cache fails, pipelines are simply compiled
// again.
#pragma once

#include <mutex>
#include <string>

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

class PipelineArchive {
 public:
  // `library` is the path of the kernel library. If it is empty, nothing is cached.
  PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library);
  ~PipelineArchive();  // saves the archive
  PipelineArchive(const PipelineArchive&) = delete;
  PipelineArchive& operator=(const PipelineArchive&) = delete;

  // Returns a pipeline from the archive, or compiles one and adds it. On failure, returns null and sets `reason`. If
  // `reflection` is not null, it receives the function's arguments (owned by the caller's pool). The archive is
  // bypassed in that case, because only a newly compiled pipeline has reflection.
  Owned<id<MTLComputePipelineState>> make(id<MTLFunction> function, MTLComputePipelineReflection** reflection,
                                          std::string* reason);
  // Writes the archive to disk if it has changed.
  void save() noexcept;

 private:
  void open();
  void write();
  std::string find() const;

  const Owned<id<MTLDevice>> device_;
  std::string folder_, name_;  // files are <name>.<content hash>.binarchive; if the name is empty, nothing is cached
  std::mutex mutex_;
  Owned<id<MTLBinaryArchive>> archive_;
  bool changed_ = false;
};

}  // namespace mpsx::driver::metal
