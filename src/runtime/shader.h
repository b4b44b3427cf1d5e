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
  KernelEntry* find(const std::string& key);  // like Driver::kernel; null if there is no such kernel

 private:
  std::unique_ptr<driver::Library> library_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelEntry*> entries_;
};

// Returns the existing object if the same source is already loaded and still in use.
std::shared_ptr<Shader> load_shader(const driver::LibrarySource& source);

// A kernel's buffer and threadgroup-memory indices, as bit masks. Not known for libraries that were translated, because
// only the translator has this information.
struct ShaderBindings {
  bool known = false;
  uint32_t buffers = 0, threadgroups = 0, tensors = 0;
};
ShaderBindings bindings(const KernelEntry& kernel);

struct ShaderArgument {
  const void* data;
  size_t bytes;     // 0 if `data` is device memory; otherwise `data` is a value of this size
  int threadgroup;  // if 1, allocates `bytes` of threadgroup memory and ignores `data`
  int tensor;       // if 1, `data` is a driver::TensorArgument
  size_t pointers;  // number of device pointers at the beginning of a value
};
struct ShaderCall {
  const ShaderArgument* arguments;
  size_t count;
  uint64_t threads[3];
  uint64_t group[3];      // if all are 0, the runtime chooses the threadgroup size
  int error_buffer = -1;  // buffer index of the kernel's ErrorMessages; -1 if it has none
};
// Throws c10::Error if the launch is invalid. shader_errors.h describes when errors reported by the kernel are thrown.
void run_shader(KernelEntry& kernel, const ShaderCall& call);

}  // namespace mpsx::runtime
