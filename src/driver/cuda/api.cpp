#include "driver/cuda/api.h"

#include <dlfcn.h>

namespace mpsx::driver::cuda {
namespace {

Api open_library() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error("no NVIDIA driver: " + std::string(dlerror()));
  Api found;
#define MPSX_FIND_OPTIONAL(NAME, SYMBOL, PARAMETERS) \
  found.NAME = reinterpret_cast<decltype(found.NAME)>(dlsym(library, SYMBOL));
#define MPSX_FIND(NAME, SYMBOL, PARAMETERS)    \
  MPSX_FIND_OPTIONAL(NAME, SYMBOL, PARAMETERS) \
  if (!found.NAME) throw Error("the NVIDIA driver is too old: libcuda.so.1 does not have " SYMBOL);
  MPSX_CUDA_FUNCTIONS(MPSX_FIND)
  MPSX_OPTIONAL_CUDA_FUNCTIONS(MPSX_FIND_OPTIONAL)
#undef MPSX_FIND
#undef MPSX_FIND_OPTIONAL
  return found;
}

}  // namespace

std::string Api::describe(CUresult result) const {
  const char *text = nullptr, *name = nullptr;
  cuGetErrorString(result, &text);
  cuGetErrorName(result, &name);
  return std::string(text ? text : "unknown error") + " (" + (name ? name : std::to_string(result).c_str()) + ")";
}

void Api::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  const std::string message = std::string(what) + ": " + describe(result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message);
  throw Error(message);
}

const Api& api() {
  static const Api* found = new Api(open_library());  // if this throws, the next call tries again
  return *found;
}

}  // namespace mpsx::driver::cuda
