// Compiled pipelines, kept on disk from one process to the next: an MTLBinaryArchive. All of it is a matter of speed:
// whatever does not work is done without.
#pragma once

#include <mutex>
#include <string>

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

class PipelineArchive {
 public:
  // `library`: the file that the kernels come from; empty: none, and nothing is kept.
  PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library);
  ~PipelineArchive();  // saves
  PipelineArchive(const PipelineArchive&) = delete;
  PipelineArchive& operator=(const PipelineArchive&) = delete;

  // Out of the archive, or compiled and put into it. None, with the reason, where the function makes no pipeline.
  // `reflection`: null, or gets what the function takes (and belongs to the caller's pool), which only a pipeline that
  // is compiled here and now has.
  Owned<id<MTLComputePipelineState>> make(id<MTLFunction> function, MTLComputePipelineReflection** reflection,
                                          std::string* reason);
  // Writes the file, if there is something new.
  void save() noexcept;

 private:
  void open();
  void write();

  const Owned<id<MTLDevice>> device_;
  std::string path_;  // empty: nothing is kept
  std::mutex mutex_;
  Owned<id<MTLBinaryArchive>> archive_;
  bool changed_ = false;
};

}  // namespace mpsx::driver::metal
