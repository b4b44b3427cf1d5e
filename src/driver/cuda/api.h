// The part of the CUDA driver API that mpsx uses. It is loaded from libcuda.so.1, which is part of every NVIDIA driver.
// Neither building nor running mpsx requires the CUDA toolkit.
//
// Types, values and signatures are from "CUDA Driver API", NVIDIA.
#pragma once

#include <cstddef>
#include <string>

#include "driver/driver.h"

namespace mpsx::driver::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUlinkState = struct CUlinkState_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

// Version 1 of the struct, which the functions without a version suffix use.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
};

struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int programmaticStreamSerializationAllowed;
  } value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned numAttrs;
};
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_READY = 600,
};
enum : int {  // CUdevice_attribute
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum : int {  // CUfunction_attribute
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};
enum : int {  // CUjit_option
  CU_JIT_MAX_REGISTERS = 0,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_GENERATE_LINE_INFO = 13,
};
constexpr int CU_JIT_INPUT_PTX = 1;
constexpr unsigned CU_MEM_ATTACH_GLOBAL = 1;
constexpr int CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3;
constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2;
constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
constexpr unsigned CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2;
constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;
constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1;

// X(name, symbol name, parameters)
#define MPSX_CUDA_FUNCTIONS(X)                                                                                 \
  X(cuInit, "cuInit", (unsigned))                                                                              \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                                          \
  X(cuGetErrorName, "cuGetErrorName", (CUresult, const char**))                                                \
  X(cuGetErrorString, "cuGetErrorString", (CUresult, const char**))                                            \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                              \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice*, int))                                                              \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                                \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                       \
  X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                                              \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                              \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                           \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                                                       \
  X(cuMemAllocManaged, "cuMemAllocManaged", (CUdeviceptr*, size_t, unsigned))                                  \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                                       \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                  \
  X(cuMemAdvise, "cuMemAdvise", (CUdeviceptr, size_t, int, CUdevice))                                          \
  X(cuMemPrefetchAsync, "cuMemPrefetchAsync", (CUdeviceptr, size_t, CUdevice, CUstream))                       \
  X(cuMemcpy, "cuMemcpy", (CUdeviceptr, CUdeviceptr, size_t))                                                  \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                              \
  X(cuMemFreeHost, "cuMemFreeHost", (void*))                                                                   \
  X(cuLinkCreate, "cuLinkCreate_v2", (unsigned, int*, void**, CUlinkState*))                                   \
  X(cuLinkAddData, "cuLinkAddData_v2", (CUlinkState, int, void*, size_t, const char*, unsigned, int*, void**)) \
  X(cuLinkComplete, "cuLinkComplete", (CUlinkState, void**, size_t*))                                          \
  X(cuLinkDestroy, "cuLinkDestroy", (CUlinkState))                                                             \
  X(cuModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                                            \
  X(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                              \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                          \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int*, int, CUfunction))                                         \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))                                          \
  X(cuStreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                                   \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                    \
  X(cuStreamQuery, "cuStreamQuery", (CUstream))                                                                \
  X(cuEventCreate, "cuEventCreate", (CUevent*, unsigned))                                                      \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                                            \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                       \
  X(cuEventQuery, "cuEventQuery", (CUevent))                                                                   \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent))                                                       \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                                      \
  X(cuGraphCreate, "cuGraphCreate", (CUgraph*, unsigned))                                                      \
  X(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                                               \
  X(cuGraphAddKernelNode, "cuGraphAddKernelNode",                                                              \
    (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS*))                       \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))            \
  X(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams",                                          \
    (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*))                                                \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                   \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                   \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", (const CUlaunchConfig*, CUfunction, void**, void**))
// Functions that an older driver may not have. They are null if it does not.
#define MPSX_OPTIONAL_CUDA_FUNCTIONS(X)                  \
  X(cuGraphAddDependencies, "cuGraphAddDependencies_v2", \
    (CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t))

struct Api {
#define MPSX_MEMBER(NAME, SYMBOL, PARAMETERS) CUresult(*NAME) PARAMETERS = nullptr;
  MPSX_CUDA_FUNCTIONS(MPSX_MEMBER)
  MPSX_OPTIONAL_CUDA_FUNCTIONS(MPSX_MEMBER)
#undef MPSX_MEMBER

  // Returns a description such as "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string describe(CUresult) const;
  // Throws OutOfMemory or Error, with `what` as a prefix, unless the result is CUDA_SUCCESS.
  void check(CUresult, const char* what) const;
};

// Opens the library on the first call, and never closes it. Throws Error with the reason if that fails.
const Api& api();

}  // namespace mpsx::driver::cuda
