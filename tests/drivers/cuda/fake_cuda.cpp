// A fake libcuda.so.1 that needs no GPU. It records calls and enforces the rules of the CUDA driver API. It "runs"
// kernels when a thread waits for them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <regex>

#include "fake_state.h"

using namespace fake;

namespace {

CUfunction parse(const std::string& text, const std::string& name) {
  const std::smatch none;
  std::smatch head;
  if (!std::regex_search(text, head, std::regex("\\.entry " + name + "\\(([^)]*)\\)([^{]*)"))) return nullptr;
  auto* f = new CUfunc_st{name, {}};
  const std::string list = head[1], tail = head[2];
  const std::regex one("\\.param ([^,\\n]*)");
  for (std::sregex_iterator i(list.begin(), list.end(), one), end; i != end; ++i) {
    const std::string parameter = (*i)[1];
    std::smatch array;
    if (std::regex_search(parameter, array, std::regex("\\[(\\d+)\\]")))
      f->parameters.push_back({std::stoul(array[1]), false});
    else
      f->parameters.push_back({parameter.find("64") != std::string::npos ? size_t(8) : size_t(4),
                               parameter.find(".ptr") != std::string::npos});
  }
  const size_t body = size_t(head.position() + head.length()), end_of_body = text.find("\n}\n", body);
  f->waits = text.substr(body, end_of_body - body).find("{\n\tgriddepcontrol.wait;\n") == 0;
  std::smatch limit;
  if (std::regex_search(tail, limit, std::regex("\\.maxntid (\\d+)"))) f->limit = unsigned(std::stoul(limit[1]));
  return f;
}

}  // namespace

FAKE Control* fake_cuda() { return &control; }

FAKE CUresult cuInit(unsigned) {
  if (control.devices == 0) return CUDA_ERROR_NO_DEVICE;
  started = true;
  return CUDA_SUCCESS;
}
FAKE CUresult cuDriverGetVersion(int* version) { return *version = control.version, CUDA_SUCCESS; }
FAKE CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == CUDA_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
          : result == kIllegalAddress        ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                             : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
FAKE CUresult cuGetErrorString(CUresult result, const char** text) {
  *text = result == kIllegalAddress ? "an illegal memory access was encountered" : "a fake error";
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetCount(int* count) { return *count = control.devices, CUDA_SUCCESS; }
FAKE CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return number < control.devices ? CUDA_SUCCESS : kInvalidValue;
}
FAKE CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, size_t(size), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetAttribute(int* value, int which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = control.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = control.shared_memory; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: *value = control.concurrent; break;
    default: return kInvalidValue;
  }
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { return *bytes = control.total, CUDA_SUCCESS; }
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = &the_context;
  return started ? CUDA_SUCCESS : kNotInitialized;
}
FAKE CUresult cuCtxSetCurrent(CUcontext context) { return current = context, CUDA_SUCCESS; }
FAKE CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = control.free, *total = control.total;
  return enter("cuMemGetInfo", false);
}

FAKE CUresult cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) {
  if (const CUresult r = enter("cuMemAllocManaged")) return r;
  if (flags != CU_MEM_ATTACH_GLOBAL || bytes == 0) return kInvalidValue;
  if (bytes > control.free) wrong("more managed memory than the GPU has free");
  void* const memory_of_cpu = std::calloc(1, bytes);
  memory[uintptr_t(memory_of_cpu)] = bytes;
  control.free -= bytes;
  *p = CUdeviceptr(uintptr_t(memory_of_cpu));
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t bytes) {
  if (const CUresult r = enter("cuMemAlloc")) return r;
  void* const memory_of_gpu = std::calloc(1, bytes);
  memory[uintptr_t(memory_of_gpu)] = bytes;
  control.free -= bytes;
  *p = CUdeviceptr(uintptr_t(memory_of_gpu));
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemFree_v2(CUdeviceptr p) {
  if (const CUresult r = enter("cuMemFree")) return r;
  const auto found = memory.find(uintptr_t(p));
  if (found == memory.end()) {
    wrong("cuMemFree of memory that is none");
    return kInvalidValue;
  }
  complete(control.launches.size());
  control.free += found->second;
  std::free(reinterpret_cast<void*>(uintptr_t(p)));
  memory.erase(found);
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, int advice, CUdevice) {
  if (const CUresult r = enter("cuMemAdvise")) return r;
  if (advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION || !inside(uintptr_t(p)) || !bytes) wrong("cuMemAdvise");
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice, CUstream stream) {
  if (const CUresult r = enter("cuMemPrefetchAsync")) return r;
  if (!inside(uintptr_t(p)) || !inside(uintptr_t(p) + bytes - 1) || stream != &the_stream) wrong("cuMemPrefetchAsync");
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (const CUresult r = enter("cuMemcpy")) return r;
  complete(control.launches.size());
  std::memcpy(reinterpret_cast<void*>(uintptr_t(to)), reinterpret_cast<const void*>(uintptr_t(from)), bytes);
  return broken;
}
FAKE CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  if (const CUresult r = enter("cuMemHostAlloc")) return r;
  if (!(flags & CU_MEMHOSTALLOC_DEVICEMAP)) wrong("cuMemHostAlloc: the GPU cannot read it");
  *p = std::calloc(1, bytes);
  memory[uintptr_t(*p)] = bytes;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemFreeHost(void* p) {
  memory.erase(uintptr_t(p));
  std::free(p);
  return CUDA_SUCCESS;
}

FAKE CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, CUlinkState* state) {
  if (const CUresult r = enter("cuLinkCreate")) return r;
  control.registers = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_MAX_REGISTERS) control.registers = unsigned(reinterpret_cast<uintptr_t>(values[i]));
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER && control.reject_link)
      std::strcpy(static_cast<char*>(values[i]), "ptxas says no");
    if (options[i] == CU_JIT_GENERATE_LINE_INFO) control.line_info = values[i] != nullptr;
  }
  *state = new CUlinkState_st;
  return CUDA_SUCCESS;
}
FAKE CUresult cuLinkAddData_v2(CUlinkState state, int kind, void* data, size_t bytes, const char*, unsigned, int*,
                               void**) {
  const auto* text = static_cast<const char*>(data);
  if (kind != CU_JIT_INPUT_PTX || text[bytes - 1] != 0) wrong("cuLinkAddData: not text");
  if (control.reject_link && control.reject_link--) return kInvalidImage;
  state->text = text;
  return CUDA_SUCCESS;
}
FAKE CUresult cuLinkComplete(CUlinkState state, void** code, size_t* size) {
  if (!control.compile()) wrong("cuLinkComplete: no other compilation has started");
  *code = state->text.data();
  *size = state->text.size() + 1;
  return CUDA_SUCCESS;
}
FAKE CUresult cuLinkDestroy(CUlinkState state) { return delete state, CUDA_SUCCESS; }
FAKE CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  if (const CUresult r = enter("cuModuleLoadData")) return r;
  const std::string text = static_cast<const char*>(code);
  if (text.find(".entry") == text.npos) return kInvalidImage;
  *module = new CUmod_st;
  const std::regex entry("\\.entry (\\w+)\\(");
  for (std::sregex_iterator i(text.begin(), text.end(), entry), end; i != end; ++i) {
    const std::string name = (*i)[1];
    (*module)->functions[name] = parse(text, name);
  }
  return CUDA_SUCCESS;
}
FAKE CUresult cuModuleUnload(CUmodule module) { return delete module, CUDA_SUCCESS; }
FAKE CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = found->second;
  return CUDA_SUCCESS;
}
FAKE CUresult cuFuncGetAttribute(int* value, int which, CUfunction function) {
  *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? int(function->limit) : 0;
  return CUDA_SUCCESS;
}
FAKE CUresult cuFuncSetAttribute(CUfunction function, int which, int value) {
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > control.shared_memory)
    return wrong("cuFuncSetAttribute"), kInvalidValue;
  function->dynamic_shared = unsigned(value);
  return CUDA_SUCCESS;
}
