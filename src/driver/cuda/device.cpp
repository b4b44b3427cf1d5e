#include "driver/cuda/device.h"

#include "driver/environment.h"

namespace mpsx::driver::cuda {
namespace {

constexpr int kMinDriver = 12000;         // the first version that supports PTX 8.0
constexpr int kMinOverlapDriver = 12030;  // the first version that supports it in graphs
constexpr int kMinMajor = 8;              // Ampere, the first generation with bfloat16 tensor cores

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Device::Device(bool open) : api(cuda::api()) {
  const CUresult started = api.cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) throw Error("no NVIDIA GPU: " + api.describe(started));
  api.check(started, "cuInit");
  api.check(api.cuDriverGetVersion(&driver_version), "cuDriverGetVersion");
  if (driver_version < kMinDriver)
    throw Error("expected an NVIDIA driver for CUDA " + version_text(kMinDriver) + " or later, got CUDA " +
                version_text(driver_version));
  int count = 0;
  api.check(api.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) throw Error("no NVIDIA GPU");
  const auto wanted = env_number("MPSX_CUDA_DEVICE", 0, uint64_t(count) - 1, 0);
  api.check(api.cuDeviceGet(&number, int(wanted)), "cuDeviceGet");
  char text[256] = {};
  api.check(api.cuDeviceGetName(text, int(sizeof text) - 1, number), "cuDeviceGetName");
  name = text;
  major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  shared_memory = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  if (major < kMinMajor)
    throw Error(name + ": expected compute capability " + std::to_string(kMinMajor) + ".0 or later, got " +
                std::to_string(major) + "." + std::to_string(minor));
  if (!attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
    throw Error(name + ": expected support for concurrent managed access, which this system does not have");
  overlaps_kernels = major >= 9 && driver_version >= kMinOverlapDriver;
  api.check(api.cuDeviceTotalMem(&total_memory, number), "cuDeviceTotalMem");
  if (!open) return;
  api.check(api.cuDevicePrimaryCtxRetain(&context_, number), "cuDevicePrimaryCtxRetain");
  bind();
}

int Device::attribute(int which) const {
  int value = 0;
  api.check(api.cuDeviceGetAttribute(&value, which, number), "cuDeviceGetAttribute");
  return value;
}

// It is enough to bind the context once per thread, because nothing else in the process makes a different one current.
void Device::bind() const {
  static thread_local CUcontext bound = nullptr;
  if (bound == context_) return;
  api.check(api.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  bound = context_;
}

}  // namespace mpsx::driver::cuda
