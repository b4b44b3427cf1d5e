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

// The kernels compiled from one source. It owns the kernels that find() returns.
class Shader {
 public:
  // Throws c10::SyntaxError if the driver's own compiler rejects the source.
  explicit Shader(const driver::LibrarySource& source);
  ~Shader();  // waits for the device
  Shader(const Shader&) = delete;
  Shader& operator=(const Shader&) = delete;
  std::vector<std::string> names() const { return library_->kernel_names(); }
  KernelEntry* find(const std::string& key);  // `key` as for Driver::kernel; null if there is no such kernel

 private:
  std::unique_ptr<driver::Library> library_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelEntry*> entries_;
};

// Returns the same object when a source that is still in use is loaded again.
std::shared_ptr<Shader> load_shader(const driver::LibrarySource& source);

// An error that a kernel reported through TORCH_REPORT_ERROR (c10/metal/error.h).
class ShaderError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bit masks of the buffer and threadgroup indices that a kernel takes, if the driver knows them. For translated
// libraries only the translator does.
struct ShaderBindings {
  bool known = false;
  uint32_t buffers = 0, threadgroups = 0;
};
ShaderBindings bindings(const KernelEntry& kernel);

struct ShaderArgument {
  const void* data;
  size_t bytes;     // 0: `data` is device memory; otherwise `data` is a value of this size
  int threadgroup;  // 1: `bytes` of threadgroup memory, without data, in its own index space
};
struct ShaderCall {
  const ShaderArgument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3];      // all 0: the runtime chooses
  int error_buffer = -1;  // the buffer index of the kernel's ErrorMessages, or -1
};
// Throws ShaderError, or c10::Error for a call that cannot be launched.
void run_shader(KernelEntry& kernel, const ShaderCall& call);

}  // namespace mpsx::runtime
