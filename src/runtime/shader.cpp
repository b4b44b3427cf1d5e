#include "runtime/shader.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "driver/reflection.h"
#include "driver/tensor_argument.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/indirect_uses.h"
#include "runtime/kernel_registry.h"
#include "runtime/launch.h"
#include "runtime/launch_recording.h"
#include "runtime/shader_errors.h"
#include "runtime/stream.h"

namespace mpsx::runtime {
namespace {

constexpr int kMaxBuffers = 31;  // Metal's limit
// The work assumed per thread if threadgroups have a single thread, which usually loops over a row.
constexpr uint64_t kWorkOfSingleThread = 1024;

driver::TensorArgument with_handle(const ShaderArgument& argument) {
  driver::TensorArgument tensor = *static_cast<const driver::TensorArgument*>(argument.data);
  const Location location = locate(tensor.data);
  tensor.handle = location.handle;
  tensor.offset = location.offset;
  return tensor;
}

driver::Size size(const uint64_t (&n)[3]) { return {uint32_t(n[0]), uint32_t(n[1]), uint32_t(n[2])}; }

}  // namespace

Shader::Shader(const driver::LibrarySource& source) {
  try {
    library_ = driver().load_library(source);
  } catch (const driver::SyntaxError& e) {
    TORCH_CHECK_WITH(SyntaxError, false, e.what());
  } catch (const driver::Error& e) {
    TORCH_CHECK(false, "mpsx: compile_shader: ", e.what());
  }
}

Shader::~Shader() {
  const bool started = driver_started();  // false in a forked child
  try {
    if (started) synchronize();
  } catch (const std::exception& error) {  // earlier work failed, and a destructor cannot rethrow its error
    TORCH_WARN("mpsx: ", error.what());
  }
  for (const auto& [key, entry] : entries_) {
    if (started) release_shader_error_buffer(*entry);
    retire_kernel(*entry);
  }
}

KernelEntry* Shader::find(const std::string& key) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = entries_.find(key); it != entries_.end()) return it->second;
  }
  const driver::Kernel* kernel = library_->kernel(key);  // may compile it, so other threads look up theirs meanwhile
  if (!kernel) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  KernelEntry*& entry = entries_[key];
  if (!entry) entry = &add_kernel(*kernel, key);
  return entry;
}

std::shared_ptr<Shader> load_shader(const driver::LibrarySource& source) {
  static std::mutex* mutex = new std::mutex;
  static auto* shaders = new std::unordered_map<std::string, std::weak_ptr<Shader>>;
  std::lock_guard<std::mutex> lock(*mutex);
  const std::string& name = source.path.empty() ? source.text : source.path;
  if (const auto known = shaders->find(name); known != shaders->end())
    if (auto shader = known->second.lock()) return shader;
  std::erase_if(*shaders, [](const auto& item) { return item.second.expired(); });
  const auto shader = std::make_shared<Shader>(source);
  shaders->emplace(name, shader);
  return shader;
}

ShaderBindings bindings(const KernelEntry& kernel) {
  ShaderBindings found;
  const auto* known = dynamic_cast<const driver::ReflectedKernel*>(kernel.kernel);
  if (!known || !known->reflected) return found;
  found.known = true;
  for (const auto& b : known->buffers) found.buffers |= 1u << b.index;
  for (const auto& b : known->threadgroups) found.threadgroups |= 1u << b.index;
  for (const auto& b : known->tensors) found.tensors |= 1u << b.index;
  found.buffers |= found.tensors;
  return found;
}

void run_shader(KernelEntry& kernel, const ShaderCall& call) {
  for (uint64_t n : call.threads)
    TORCH_CHECK(n <= 0xffffffffu, kernel.name, ": expected at most 2^32-1 threads per dimension, got ", n);
  TORCH_CHECK(call.error_buffer < kMaxBuffers, kernel.name, ": expected error_buf_idx below ", kMaxBuffers, ", got ",
              call.error_buffer);
  Launch launch(kernel);
  size_t given = 0;  // number of buffers; threadgroup memory arguments follow them
  while (given < call.count && !call.arguments[given].threadgroup) ++given;
  const size_t count = std::max(given, size_t(call.error_buffer + 1));
  void* const messages = call.error_buffer < 0 ? nullptr : shader_error_buffer(kernel);
  const bool by_handle = driver().traits().memory == driver::Memory::buffers;
  std::vector<driver::TensorArgument> tensors;  // copies of the tensor arguments that also contain handles and offsets
  if (by_handle)
    tensors.reserve(size_t(std::count_if(call.arguments, call.arguments + given, [](auto& a) { return a.tensor; })));
  IndirectUses indirect;
  for (size_t i = 0; i < given; ++i)
    for (size_t k = 0; k < call.arguments[i].pointers; ++k) {
      const void* const p = static_cast<const void* const*>(call.arguments[i].data)[k];
      const Location location = locate(p);
      indirect.add(location.last_use_seq);
      if (LaunchRecording* const to = recording()) to->add_use(p, location);
    }
  for (size_t i = 0; i < count; ++i) {
    if (int(i) == call.error_buffer)
      launch.pointer(messages);
    else if (i >= given)
      launch.pointer(nullptr);
    else if (call.arguments[i].tensor && by_handle)
      launch.bytes(tensors.emplace_back(with_handle(call.arguments[i])));
    else if (call.arguments[i].tensor)
      launch.bytes(call.arguments[i].data, driver::TensorArgument::kBindingBytes);
    else if (call.arguments[i].bytes == 0)
      launch.pointer(call.arguments[i].data, driver::Access::write);
    else
      launch.bytes(call.arguments[i].data, call.arguments[i].bytes);
  }
  for (size_t i = given; i < call.count; ++i) launch.threadgroup_memory(call.arguments[i].bytes);
  const uint64_t limit = kernel.kernel->max_threads;
  const bool chosen = call.group[0] == 0 && call.group[1] == 0 && call.group[2] == 0;
  const uint64_t row[3] = {std::clamp<uint64_t>(call.threads[0], 1, limit), 1, 1};
  if (!chosen)
    TORCH_CHECK(std::max({call.group[0], call.group[1], call.group[2]}) <= limit, kernel.name,
                ": expected a threadgroup of 1 to ", limit, " threads, got ", call.group[0], "x", call.group[1], "x",
                call.group[2]);
  if (limit == 1) launch.work(kWorkOfSingleThread);
  launch.threads_in_groups(size(call.threads), chosen ? size(row) : size(call.group)).run();
  if (messages) check_shader_errors(kernel, messages);
}

}  // namespace mpsx::runtime
