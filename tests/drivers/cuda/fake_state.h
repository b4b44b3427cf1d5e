// The state of the fake libcuda, shared by its source files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/cuda/api.h"
#include "fake_control.h"

#define FAKE extern "C" __attribute__((visibility("default")))

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
  bool waits = false;  // for the previous kernel, before it does anything else
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
  CUfunction function = nullptr;
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

namespace fake {

using namespace mpsx::driver::cuda;

constexpr CUresult kInvalidValue = 1, kNotInitialized = 3, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500,
                   kIllegalAddress = 700;
inline Control control;
inline CUctx_st the_context;
inline CUstream_st the_stream;
inline thread_local CUcontext current = nullptr;
inline bool started = false;
inline CUresult broken = CUDA_SUCCESS;  // error of a failed kernel; all later calls return it
inline std::map<uintptr_t, size_t> memory;
inline size_t completed = 0;  // number of completed launches

inline void wrong(const std::string& what) { control.wrong.push_back(what); }

inline bool inside(uintptr_t p) {
  auto after = memory.upper_bound(p);
  return after != memory.begin() && p < (--after)->first + after->second;
}

inline CUresult enter(const char* name, bool logged = true) {
  if (logged) control.record(name);
  if (!started) return kNotInitialized;
  if (!current) {
    wrong(std::string(name) + " without a context");
    return kInvalidContext;
  }
  return broken;
}

// Completes the launches up to `launch_index`. If a kernel has failed, returns the error.
inline CUresult complete(size_t launch_index) {
  for (; completed < launch_index; ++completed)
    if (control.launches[completed].kernel == control.failing) broken = kIllegalAddress;
  return broken;
}

}  // namespace fake
