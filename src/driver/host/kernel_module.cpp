#include "driver/host/kernel_module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver/host/fault_handler.h"
#include "driver/host/interrupt.h"
#include "driver/host/kernel_code.h"
#include "driver/host/simt/engine.h"

namespace mpsx::driver::host {
namespace {

#ifdef __APPLE__
constexpr const char* kSuffix = ".dylib";
#else
constexpr const char* kSuffix = ".so";
#endif

// Returns the instruction sets that this CPU supports, from best to worst.
std::vector<std::string> supported_isas() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  std::vector<std::string> isas;
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    isas.push_back("x86-64-v4");
  if (v3) isas.push_back("x86-64-v3");
  isas.push_back("baseline");
  return isas;
#else
  return {"baseline"};
#endif
}

std::string library_path(const std::string& directory, const std::string& isa) {
  return directory + "/libmpsx_kernels_" + isa + kSuffix;
}

}  // namespace

std::string find_library(const std::string& directory, bool simt) {
  if (simt) {
    const std::string path = library_path(directory, "simt");
    if (access(path.c_str(), R_OK) != 0)
      throw Error("MPSX_DRIVER=simt: cannot find " + path + ", which this build does not include");
    return path;
  }
  std::vector<std::string> isas = supported_isas();
  // "all" is a value for builds. It selects nothing here, because a wheel is often tested in the shell that built it.
  if (const char* forced = std::getenv("MPSX_ISA"); forced && *forced && std::strcmp(forced, "all") != 0) {
    bool runnable = false;
    for (const auto& isa : isas) runnable |= isa == forced;
    if (!runnable) throw Error(std::string("MPSX_ISA=") + forced + ": this CPU runs " + isas.front() + " and below");
    isas = {forced};
  }
  for (const auto& isa : isas) {
    const std::string path = library_path(directory, isa);
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  throw Error("no kernel library for this CPU (" + isas.front() + ") in " + directory +
              ": the installation is incomplete; reinstall mpsx");
}

KernelModule::~KernelModule() {
  unregister_kernel_code(dlsym(library_, "mpsx_kernel_table"));
  dlclose(library_);
}

void KernelModule::open(const std::string& path) {
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw Error("cannot load the kernel library " + path + ": " + dlerror());
  const auto* table = static_cast<const mpsx_kernel_table_t*>(dlsym(library_, "mpsx_kernel_table"));
  if (!table || table->abi_version != MPSX_KERNEL_ABI_VERSION)
    throw Error(path + " was built for another version of mpsx; reinstall mpsx");
  *table->simt = &simt::kServices;
  register_kernel_code(table);
  install_fault_handlers();
  if (is_user_library_) install_interrupt_handlers();
  compiler_ = table->compiler;
  isa_ = table->isa;
  const std::vector<std::string> here = supported_isas();
  if (isa_.rfind("x86-64-v", 0) == 0 && std::find(here.begin(), here.end(), isa_) == here.end())
    throw Error("the kernels of " + path + " need " + isa_ + ", this CPU runs " + here.front());
  kernels_.reserve(table->count);
  for (unsigned i = 0; i < table->count; ++i) {
    const mpsx_kernel_record* record = table->records[i];
    HostKernel kernel;
    kernel.name = record->name;
    kernel.record = record;
    kernel.is_user_kernel = is_user_library_;
    // In wide mode, threadgroups have one thread. But a kernel that is launched by threads works with any threadgroup
    // shape and cannot observe the SIMD width, so report Metal's usual width for it.
    kernel.simd_width = record->unit == MPSX_UNIT_GROUPS ? 1 : MPSX_SIMD_WIDTH;
    kernel.max_threads = record->unit == MPSX_UNIT_GROUPS ? 1 : record->max_threads;
    kernel.static_threadgroup_bytes = record->static_threadgroup_bytes;
    kernels_.emplace(record->name, std::move(kernel));
  }
}

const Kernel* KernelModule::kernel(std::string_view key) const {
  auto it = kernels_.find(key);
  if (it != kernels_.end()) return &it->second;
  return key.find('|') == key.npos ? nullptr : specialized(key);
}

// Returns the kernel for the function constants in `key`.
const Kernel* KernelModule::specialized(std::string_view key) const {
  const size_t bar = key.find('|');
  const auto plain = kernels_.find(key.substr(0, bar));
  if (plain == kernels_.end()) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = specialized_.find(std::string(key));
  if (known != specialized_.end()) return &known->second;
  HostKernel kernel;
  static_cast<Kernel&>(kernel) = plain->second;
  kernel.record = plain->second.record;
  kernel.is_user_kernel = is_user_library_;
  std::vector<FunctionConstant> declared;
  for (const auto* c = kernel.record->constants; declared.size() < kernel.record->constant_count; ++c)
    declared.push_back({c->name, c->index, c->scalar, c->components});
  kernel.constants = std::make_unique<FunctionConstants>(kernel.record->name, std::move(declared), key.substr(bar + 1));
  kernel.name = key;
  return &specialized_.emplace(key, std::move(kernel)).first->second;
}

std::vector<std::string> KernelModule::kernel_names() const {
  std::vector<std::string> names;
  names.reserve(kernels_.size());
  for (const auto& [name, kernel] : kernels_) names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mpsx::driver::host
