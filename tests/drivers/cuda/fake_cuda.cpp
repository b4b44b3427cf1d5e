// A fake libcuda.so.1 that needs no GPU. It records calls and enforces the rules of the CUDA driver API. It "runs"
// kernels when a thread waits for them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "driver/cuda/api.h"
#include "fake_control.h"

using namespace mpsx::driver::cuda;
using fake::Control;

// The objects behind CUDA's opaque handles.
namespace mpsx::driver::cuda {
struct CUctx_st {};
struct FakeParameter {
  size_t size;
  bool pointer;
};
struct CUmod_st {
  std::map<std::string, CUfunc_st*> functions;
};
struct CUfunc_st {
  std::string name;
  std::vector<FakeParameter> parameters;
  unsigned limit = 1024, dynamic_shared = 49152;
};
struct CUstream_st {};
struct CUevent_st {
  size_t launch_index = 0;  // number of launches recorded before the event
  bool recorded = false;
};
struct CUlinkState_st {
  std::string text;
};
struct CUgraphNode_st {
  size_t index;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<fake::Launch> launches;  // of the nodes
};
struct CUgraphExec_st {
  std::vector<fake::Launch> launches;
  size_t launched = 0;  // number of launches after the graph's last launch
};
}  // namespace mpsx::driver::cuda

namespace {

constexpr CUresult kInvalidValue = 1, kNotInitialized = 3, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500,
                   kIllegalAddress = 700;
Control control;
CUctx_st the_context;
CUstream_st the_stream;
thread_local CUcontext current = nullptr;
bool started = false;
CUresult broken = CUDA_SUCCESS;  // error of a failed kernel; all later calls return it
std::map<uintptr_t, size_t> memory;
std::map<CUfunction, CUmodule> modules;
size_t completed = 0;  // number of completed launches

void wrong(const std::string& what) { control.wrong.push_back(what); }

bool inside(uintptr_t p) {
  auto after = memory.upper_bound(p);
  return after != memory.begin() && p < (--after)->first + after->second;
}

CUresult enter(const char* name, bool logged = true) {
  if (logged) control.record(name);
  if (!started) return kNotInitialized;
  if (!current) {
    wrong(std::string(name) + " without a context");
    return kInvalidContext;
  }
  return broken;
}

// Completes the launches up to `launch_index`. If a kernel has failed, returns the error.
CUresult complete(size_t launch_index) {
  for (; completed < launch_index; ++completed)
    if (control.launches[completed].kernel == control.failing) broken = kIllegalAddress;
  return broken;
}

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
  std::smatch limit;
  if (std::regex_search(tail, limit, std::regex("\\.maxntid (\\d+)"))) f->limit = unsigned(std::stoul(limit[1]));
  return f;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))
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
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = control.major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = control.shared_memory;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      *value = control.concurrent;
      break;
    default:
      return kInvalidValue;
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
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER && control.reject_link)
      std::strcpy(static_cast<char*>(values[i]), "ptxas says no");
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

FAKE CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = &the_stream;
  return enter("cuStreamCreate");
}
FAKE CUresult cuStreamSynchronize(CUstream) {
  if (const CUresult r = enter("cuStreamSynchronize")) return r;
  return complete(control.launches.size());
}
FAKE CUresult cuStreamQuery(CUstream) {
  if (const CUresult r = enter("cuStreamQuery", false)) return r;
  if (control.paused && completed < control.launches.size()) return CUDA_ERROR_NOT_READY;
  return complete(control.launches.size());
}
FAKE CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = new CUevent_st;
  return enter("cuEventCreate");
}
FAKE CUresult cuEventDestroy_v2(CUevent event) { return delete event, CUDA_SUCCESS; }
FAKE CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult r = enter("cuEventRecord")) return r;
  if (stream != &the_stream) wrong("cuEventRecord in another stream");
  event->launch_index = control.launches.size();
  event->recorded = true;
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventQuery(CUevent event) {
  if (const CUresult r = enter("cuEventQuery", false)) return r;
  if (control.paused && completed < event->launch_index) return CUDA_ERROR_NOT_READY;
  return complete(event->launch_index);
}
FAKE CUresult cuEventSynchronize(CUevent event) {
  if (const CUresult r = enter("cuEventSynchronize")) return r;
  return complete(event->launch_index);
}
FAKE CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  if (!from->recorded || !to->recorded) return kInvalidValue;
  *ms = float(to->launch_index) - float(from->launch_index);
  return CUDA_SUCCESS;
}

// Checks a launch against the rules of the API and appends it to `to`.
static CUresult add_launch(const CUDA_KERNEL_NODE_PARAMS& p, std::vector<fake::Launch>& to) {
  const unsigned x = p.gridDimX, y = p.gridDimY, z = p.gridDimZ;
  if (!x || x > 0x7fffffffu || !y || y > 65535 || !z || z > 65535)
    return wrong("a grid beyond the limits"), kInvalidValue;
  if (!p.blockDimX || p.blockDimX > p.func->limit || p.blockDimY != 1 || p.blockDimZ != 1)
    return wrong("a block beyond the limits"), kInvalidValue;
  if (p.sharedMemBytes > p.func->dynamic_shared) return wrong("too much shared memory"), kInvalidValue;
  fake::Launch launch{p.func->name, {x, y, z}, p.blockDimX, p.sharedMemBytes, {}};
  for (size_t i = 0; i < p.func->parameters.size(); ++i) {
    const FakeParameter& expected = p.func->parameters[i];
    const auto* bytes = static_cast<const unsigned char*>(p.kernelParams[i]);
    launch.parameters.emplace_back(bytes, bytes + expected.size);
    uintptr_t address = 0;
    if (expected.pointer) std::memcpy(&address, bytes, sizeof address);
    if (address && !inside(address)) wrong(p.func->name + ": an address that the GPU cannot reach");
  }
  to.push_back(std::move(launch));
  return CUDA_SUCCESS;
}

FAKE CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void** parameters, void** extra) {
  if (const CUresult r = enter("cuLaunchKernel")) return r;
  if (stream != &the_stream || extra) wrong("cuLaunchKernel: arguments");
  return add_launch({function, x, y, z, bx, by, bz, shared, parameters, extra}, control.launches);
}

FAKE CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (const CUresult r = enter("cuGraphCreate")) return r;
  *graph = new CUgraph_st;
  ++control.graphs, control.edges = {};
  return flags ? kInvalidValue : CUDA_SUCCESS;
}
FAKE CUresult cuGraphDestroy(CUgraph graph) { return delete graph, --control.graphs, CUDA_SUCCESS; }
FAKE CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (const CUresult r = enter("cuGraphAddKernelNode")) return r;
  control.edges.emplace_back();
  for (size_t i = 0; i < count; ++i) control.edges.back().push_back(after[i]->index);
  if (const CUresult r = add_launch(*parameters, graph->launches)) return r;
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{graph->nodes.size()}));
  *node = graph->nodes.back().get();
  return CUDA_SUCCESS;
}
FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  if (const CUresult r = enter("cuGraphInstantiate")) return r;
  *executable = new CUgraphExec_st{graph->launches};
  ++control.graphs;
  return flags ? kInvalidValue : CUDA_SUCCESS;
}
FAKE CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (const CUresult r = enter("cuGraphExecKernelNodeSetParams")) return r;
  std::vector<fake::Launch> changed;
  if (const CUresult r = add_launch(*parameters, changed)) return r;
  if (changed[0].kernel != executable->launches[node->index].kernel) return kInvalidValue;
  executable->launches[node->index] = std::move(changed[0]);
  return CUDA_SUCCESS;
}
FAKE CUresult cuGraphExecDestroy(CUgraphExec executable) {
  if (executable->launched > completed) wrong("destroyed a graph that is running");
  return delete executable, --control.graphs, CUDA_SUCCESS;
}
FAKE CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  if (const CUresult r = enter("cuGraphLaunch")) return r;
  if (stream != &the_stream) wrong("cuGraphLaunch in another stream");
  control.launches.insert(control.launches.end(), executable->launches.begin(), executable->launches.end());
  executable->launched = control.launches.size();
  return CUDA_SUCCESS;
}
