// Kernels compiled at run time: mpsx.compile_shader.
#pragma once

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// The kernels of one source, which are handed out by address and go with it.
class Shader {
 public:
  // Throws c10::SyntaxError where the driver's own compiler finds the source wrong.
  explicit Shader(const driver::LibrarySource& source);
  ~Shader();  // waits for the device
  Shader(const Shader&) = delete;
  Shader& operator=(const Shader&) = delete;
  std::vector<std::string> names() const { return library_->kernel_names(); }
  KernelEntry* find(const std::string& key);  // as Driver::kernel; null: none of that name

 private:
  std::unique_ptr<driver::Library> library_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelEntry*> entries_;
};

// The same object when a source is loaded again while it is in use.
std::shared_ptr<Shader> load_shader(const driver::LibrarySource& source);

// An error that a kernel reported through TORCH_REPORT_ERROR (c10/metal/error.h).
class ShaderError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The arguments of a kernel, as bits by index, if the driver knows them: for a library compiled from a translation only
// the translator does.
struct ShaderBindings {
  bool known = false;
  uint32_t buffers = 0, threadgroups = 0;
};
ShaderBindings bindings(const KernelEntry& kernel);

struct ShaderArgument {
  const void* data;
  size_t bytes;     // 0: `data` is memory of the device; else a value of so many bytes
  int threadgroup;  // 1: so many bytes of threadgroup memory, and no data; these count on their own
};
struct ShaderCall {
  const ShaderArgument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3];      // all 0: chosen here
  int error_buffer = -1;  // the buffer index of the kernel's ErrorMessages, or -1
};
// Throws ShaderError, or c10::Error for a call that cannot be launched.
void run_shader(KernelEntry& kernel, const ShaderCall& call);

}  // namespace mpsx::runtime
