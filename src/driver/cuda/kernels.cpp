#include "driver/cuda/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/cuda/dependent_launch.h"
#include "driver/dispatch_check.h"
#include "driver/environment.h"

namespace mpsx::driver::cuda {
namespace {

// Owns a CUlinkState.
class Link {
 public:
  Link(const Api& a, unsigned count, int* options, void** values) : api_(a) {
    api_.check(api_.cuLinkCreate(count, options, values, &state_), "cuLinkCreate");
  }
  ~Link() { api_.cuLinkDestroy(state_); }
  Link(const Link&) = delete;
  CUlinkState get() const { return state_; }

 private:
  const Api& api_;
  CUlinkState state_ = nullptr;
};

// Returns how many bytes of threadgroup memory a kernel uses. The module also declares the variables of the file's
// other kernels. So only variables that occur again after their declaration are counted.
size_t threadgroup_bytes(std::string_view module) {
  size_t bytes = 0;
  for (size_t at = 0; (at = module.find(".shared .align ", at)) != module.npos;) {
    const size_t end = std::min(module.find(";\n", at), module.size());
    const std::string_view declaration = module.substr(at, end - at);  // ".shared .align 16 .b8 name[256]"
    const size_t bracket = declaration.find('['), space = declaration.rfind(' ', bracket);
    const std::string_view name = declaration.substr(space + 1, bracket - space - 1);
    if (bracket != declaration.npos && module.find(name, end) != module.npos)
      bytes += std::strtoull(declaration.data() + bracket + 1, nullptr, 10);
    at = end;
  }
  return bytes;
}

// Returns the register limit per thread for the threadgroup size in `key`, or 0 if there is none. A threadgroup has
// 65536 registers, and each thread gets a multiple of 8.
unsigned register_limit(std::string_view key, unsigned additional_threads) {
  const size_t at = key.rfind(kThreads);
  if (at == key.npos) return 0;
  const unsigned long threads = std::strtoul(std::string(key.substr(at + kThreads.size())).c_str(), nullptr, 10);
  return 65536 / (unsigned(std::clamp(threads, 1ul, 1024ul)) + additional_threads) / 8 * 8;
}

}  // namespace

Kernels::Kernels(const Device& device, const std::string& path)
    : device_(device),
      line_info_(env_flag("MPSX_CUDA_LINE_INFO")),
      library_(path, device.target()),
      cache_(device, line_info_) {}

Kernels::Loaded::~Loaded() {
  if (module) api.cuModuleUnload(module);
}

const CudaKernel* Kernels::get(std::string_view key) {
  const PtxKernel* found = library_.find(key.substr(0, key.find('|')));
  if (!found) return nullptr;
  Entry* entry;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    entry = &entries_[std::string(key)];
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  if (!entry->loaded) entry->loaded = load(key, *found);
  return &entry->loaded->kernel;
}

std::unique_ptr<Kernels::Loaded> Kernels::load(std::string_view key, const PtxKernel& found) {
  device_.bind();
  const Api& api = device_.api;
  auto loaded = std::make_unique<Loaded>(api);
  const unsigned registers = register_limit(key, found.additional_threads);
  std::string cubin = cache_.find(found, registers);
  if (cubin.empty() || api.cuModuleLoadData(&loaded->module, cubin.data()) != CUDA_SUCCESS) {
    cubin = compile(found, registers);
    api.check(api.cuModuleLoadData(&loaded->module, cubin.data()), (found.name + ": cuModuleLoadData").c_str());
    cache_.store(found, registers, cubin);
  }
  CudaKernel& kernel = loaded->kernel;
  kernel.name = key.substr(0, key.rfind(kThreads));
  api.check(api.cuModuleGetFunction(&kernel.function, loaded->module, found.symbol.c_str()), "cuModuleGetFunction");
  int most = 0, shared = 0;
  api.check(api.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel.function),
            "cuFuncGetAttribute");
  api.check(api.cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel.function),
            "cuFuncGetAttribute");
  kernel.additional_threads = found.additional_threads;
  kernel.max_threads = uint32_t(most) - found.additional_threads;
  kernel.static_threadgroup_bytes = uint32_t(shared);
  kernel.staging = found.staging;
  kernel.simdgroup_staging = found.simdgroup_staging;
  if (kernel.staging || kernel.simdgroup_staging)
    api.check(api.cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     device_.shared_memory - shared),
              "cuFuncSetAttribute");
  if (found.max_staging + shared <= uint32_t(device_.shared_memory)) kernel.max_staging = found.max_staging;
  kernel.parameters = found.parameters;
  for (const Parameter& p : kernel.parameters) {
    uint32_t& count = p.kind == Parameter::Kind::threadgroup ? kernel.threadgroups : kernel.buffers;
    count = std::max(count, p.index + 1);
  }
  if (kernel.threadgroups > 0) kernel.max_staging = 0;  // it cannot tell where the threadgroup arguments start
  return loaded;
}

// Compiles the kernel to machine code for this GPU.
std::string Kernels::compile(const PtxKernel& kernel, unsigned registers) {
  const Api& api = device_.api;
  std::string text = PtxLibrary::text(kernel);
  if (device_.overlaps_kernels) text = with_dependent_launch(std::move(text));
  if (const size_t bytes = threadgroup_bytes(text); bytes > kMaxThreadgroupMemory)
    throw Error(kernel.name + ": expected at most " + std::to_string(kMaxThreadgroupMemory) +
                " bytes of threadgroup memory, got " + std::to_string(bytes));
  char log[4096] = {};
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_GENERATE_LINE_INFO,
                   CU_JIT_MAX_REGISTERS};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log), reinterpret_cast<void*>(size_t(line_info_)),
                    reinterpret_cast<void*>(size_t(registers))};
  const Link link(api, registers ? 4 : 3, options, values);
  void* code = nullptr;
  size_t size = 0;
  CUresult result = api.cuLinkAddData(link.get(), CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()), text.size() + 1,
                                      kernel.name.c_str(), 0, nullptr, nullptr);
  if (result == CUDA_SUCCESS) result = api.cuLinkComplete(link.get(), &code, &size);
  if (result != CUDA_SUCCESS)
    throw Error(kernel.name + ": the NVIDIA driver cannot compile it: " + api.describe(result) + (*log ? "\n" : "") +
                log);
  return std::string(static_cast<const char*>(code), size);
}

}  // namespace mpsx::driver::cuda
