#include "driver/metal/device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "driver/environment.h"

namespace mpsx::driver::metal {
namespace {

// MSL 3.1, the first version with bfloat, requires macOS 14, and so do PyTorch's wheels.
constexpr NSInteger kOldestMacOS = 14;

std::atomic<bool> forked{false};

void check_macos() {
  const NSOperatingSystemVersion version = NSProcessInfo.processInfo.operatingSystemVersion;
  if (version.majorVersion >= kOldestMacOS) return;
  throw Error("expected macOS " + std::to_string(kOldestMacOS) + " or later, whose Metal supports bfloat, got macOS " +
              std::to_string(version.majorVersion) + "." + std::to_string(version.minorVersion) +
              ". MPSX_DRIVER=host runs on the CPU");
}

// Returns the highest Apple GPU family that the device supports, or 0 if it cannot run our kernels. Apple<n> has the
// value 1000 + n, so the loop also tests families that are newer than the SDK's headers.
int apple_family(id<MTLDevice> device) {
  constexpr int kFirst = MTLGPUFamilyApple7 - 1000, kLast = 19;
  for (int n = kLast; n >= kFirst; --n)
    if ([device supportsFamily:MTLGPUFamily(1000 + n)]) return n;
  return 0;
}

}  // namespace

Owned<id<MTLDevice>> find_device() {
  AutoreleasePool pool;
  // In a process that does not link CoreGraphics, MTLCreateSystemDefaultDevice returns nil.
  const auto devices = Owned<NSArray<id<MTLDevice>>*>::adopt(MTLCopyAllDevices());
  std::string others;
  for (NSUInteger i = 0; i < devices.get().count; ++i) {
    id<MTLDevice> device = [devices.get() objectAtIndex:i];
    if (apple_family(device)) {
      check_macos();
      return Owned<id<MTLDevice>>::retain(device);
    }
    others += (others.empty() ? "" : ", ") + to_string(device.name);
  }
  if (others.empty()) return {};
  throw Error("expected an Apple GPU (M1 or later), got " + others +
              ". PyTorch no longer supports Macs with Intel or AMD GPUs. MPSX_DRIVER=host runs on the CPU");
}

Info describe_device(id<MTLDevice> device) {
  AutoreleasePool pool;
  Info info;
  info.name = "metal";
  info.device = to_string(device.name);
  info.isa = "apple" + std::to_string(apple_family(device));
  info.compiler = "Metal";
  info.total_memory = device.recommendedMaxWorkingSetSize;
  return info;
}

Traits describe_traits(id<MTLDevice> device) {
  AutoreleasePool pool;
  Traits traits;  // all defaults, because Metal does not report the number of GPU cores
  // Like MLX and llama.cpp, use tensor operations from macOS 26.2 on.
  const NSOperatingSystemVersion macos = NSProcessInfo.processInfo.operatingSystemVersion;
  const bool recent = macos.majorVersion > 26 || (macos.majorVersion == 26 && macos.minorVersion >= 2);
  traits.tensor_tier = recent && [device supportsFamily:kFamilyMetal4];
  constexpr int kNewestTuned = 10;
  traits.gpu_family = "apple" + std::to_string(std::min(apple_family(device), kNewestTuned));
  // If each tensor has its own buffer, Metal's shader validation detects every out-of-bounds access.
  traits.exact_allocations = env_flag("MPSX_METAL_EXACT_BUFFERS");
  return traits;
}

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (is_forked())
    throw Error("Metal cannot be used in a forked process; start workers with the 'spawn' method");
}

void install_fork_handler() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  if (registered != 0) throw Error("out of memory for a fork handler");
}

}  // namespace mpsx::driver::metal
