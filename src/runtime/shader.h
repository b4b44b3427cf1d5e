// Kernels compiled at run time, for mpsx.compile_shader.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// The kernels compiled from one source. Owns the kernels that find() returns.
class Shader {
 public:
  // Throws c10::SyntaxError if the driver's own compiler rejects the source.
  explicit Shader(const driver::LibrarySource& source);
  ~Shader();  // waits for the device
  Shader(const Shader&) = delete;
  Shader& operator=(const Shader&) = delete;
  std::vector<std::string> names() const { return library_->kernel_names(); }
  KernelEntry* find(const std::string& key);  // like Driver::kernel; null if not found

 private:
  std::unique_ptr<driver::Library> library_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelEntry*> entries_;
};

// Returns the existing object if the same source is loaded again while in use.
std::shared_ptr<Shader> load_shader(const driver::LibrarySource& source);

// Bit masks of a kernel's buffer and threadgroup-memory indices. Unknown for translated libraries, because only the
// translator has this information.
struct ShaderBindings {
  bool known = false;
  uint32_t buffers = 0, threadgroups = 0, tensors = 0;
};
ShaderBindings bindings(const KernelEntry& kernel);

struct ShaderArgument {
  const void* data;
  size_t bytes;     // 0: `data` is device memory; otherwise `data` is a value of this size
  int threadgroup;  // 1: allocates `bytes` of threadgroup memory; `data` is unused
  int tensor;       // 1: `data` is a driver::TensorArgument
  size_t pointers;  // the number of device pointers at the beginning of a value
};
struct ShaderCall {
  const ShaderArgument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3];      // all zeros let the runtime choose
  int error_buffer = -1;  // buffer index of the kernel's ErrorMessages, or -1
};
// Throws c10::Error if the launch is invalid. Errors that the kernel reports are thrown as in shader_errors.h.
void run_shader(KernelEntry& kernel, const ShaderCall& call);

}  // namespace mpsx::runtime
