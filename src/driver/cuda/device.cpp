#include "driver/cuda/device.h"

#include <cstdlib>

namespace mpsx::driver::cuda {
namespace {

constexpr int kLeastDriver = 12000;  // the first that reads PTX 8.0
constexpr int kLeastMajor = 8;       // Ampere: bfloat16 on tensor cores

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int wanted_device(int count) {
  const char* text = std::getenv("MPSX_CUDA_DEVICE");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end || number < 0 || number >= count)
    throw Error(std::string("MPSX_CUDA_DEVICE: expected a number below ") + std::to_string(count) + ", got \"" + text +
                "\"");
  return int(number);
}

}  // namespace

Device::Device(bool open) : api(cuda::api()) {
  const CUresult started = api.cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) throw Error("no NVIDIA GPU: " + api.describe(started));
  api.check(started, "cuInit");
  api.check(api.cuDriverGetVersion(&driver_version), "cuDriverGetVersion");
  if (driver_version < kLeastDriver)
    throw Error("the NVIDIA driver is too old: made for CUDA " + version_text(driver_version) + ", at least " +
                version_text(kLeastDriver) + " is needed");
  int count = 0;
  api.check(api.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) throw Error("no NVIDIA GPU");
  api.check(api.cuDeviceGet(&number, wanted_device(count)), "cuDeviceGet");
  char text[256] = {};
  api.check(api.cuDeviceGetName(text, int(sizeof text) - 1, number), "cuDeviceGetName");
  name = text;
  major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  if (major < kLeastMajor)
    throw Error(name + " is too old: its compute capability is " + std::to_string(major) + "." + std::to_string(minor) +
                ", at least " + std::to_string(kLeastMajor) + ".0 is needed");
  if (!attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
    throw Error(name + " cannot share memory with the CPU while it works, on this system (concurrent managed access)");
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

// Once a thread: nobody else in the process has a reason to make another context current.
void Device::bind() const {
  static thread_local CUcontext bound = nullptr;
  if (bound == context_) return;
  api.check(api.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  bound = context_;
}

}  // namespace mpsx::driver::cuda
