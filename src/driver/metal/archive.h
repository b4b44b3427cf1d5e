// A disk cache of compiled pipelines (an MTLBinaryArchive). It only saves time: anything that fails is done without it.
#pragma once

#include <mutex>
#include <string>

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

class PipelineArchive {
 public:
  // `library`: the file with the kernels; empty: none, and nothing is cached.
  PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library);
  ~PipelineArchive();  // saves
  PipelineArchive(const PipelineArchive&) = delete;
  PipelineArchive& operator=(const PipelineArchive&) = delete;

  // A pipeline from the archive, or compiled and added to it. None, with the reason, if the function makes no pipeline.
  // `reflection`: null, or receives the function's arguments (owned by the caller's pool), which only a pipeline that
  // was compiled just now has.
  Owned<id<MTLComputePipelineState>> make(id<MTLFunction> function, MTLComputePipelineReflection** reflection,
                                          std::string* reason);
  // Writes the file, if there is something new.
  void save() noexcept;

 private:
  void open();
  void write();
  std::string find() const;

  const Owned<id<MTLDevice>> device_;
  std::string folder_, name_;  // files are <name>.<hash of the contents>.binarchive; no name: nothing is kept
  std::mutex mutex_;
  Owned<id<MTLBinaryArchive>> archive_;
  bool changed_ = false;
};

}  // namespace mpsx::driver::metal
