#include "driver/metal/device.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>

namespace mpsx::driver::metal {
namespace {

// MSL 3.1, which has bfloat, and PyTorch's own wheels both ask for it.
constexpr NSInteger kOldestMacOS = 14;

std::atomic<bool> forked{false};

void check_macos() {
  const NSOperatingSystemVersion version = NSProcessInfo.processInfo.operatingSystemVersion;
  if (version.majorVersion >= kOldestMacOS) return;
  throw Error("macOS " + std::to_string(kOldestMacOS) + " or later is needed, this is macOS " +
              std::to_string(version.majorVersion) + "." + std::to_string(version.minorVersion) +
              ": its Metal has no bfloat. MPSX_DRIVER=host runs on the CPU");
}

// The highest family of Apple GPUs that the device belongs to; 0: none that runs our kernels. Families newer than the
// SDK's headers have no name there, but they have numbers: Apple<n> is 1000 + n.
int apple_family(id<MTLDevice> device) {
  constexpr int kFirst = MTLGPUFamilyApple7 - 1000, kLast = 19;
  for (int n = kLast; n >= kFirst; --n)
    if ([device supportsFamily:MTLGPUFamily(1000 + n)]) return n;
  return 0;
}

}  // namespace

Owned<id<MTLDevice>> find_device() {
  AutoreleasePool pool;
  // Not MTLCreateSystemDefaultDevice: it gives nothing to a process that has not linked CoreGraphics.
  const auto devices = Owned<NSArray<id<MTLDevice>>*>::taking(MTLCopyAllDevices());
  std::string others;
  for (NSUInteger i = 0; i < devices.get().count; ++i) {
    id<MTLDevice> device = [devices.get() objectAtIndex:i];
    if (apple_family(device)) {
      check_macos();
      return Owned<id<MTLDevice>>::sharing(device);
    }
    others += (others.empty() ? "" : ", ") + to_string(device.name);
  }
  if (others.empty()) return {};
  throw Error("an Apple GPU (M1 or later) is needed, this Mac has " + others +
              ": PyTorch has no wheels for Macs with Intel or AMD GPUs any more. MPSX_DRIVER=host runs on the CPU");
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

Traits describe_traits() {
  Traits traits;  // as they are by default; Metal does not tell how many cores the GPU has
  // A buffer a tensor: Metal's shader validation then sees every access beside it.
  const char* exact = std::getenv("MPSX_METAL_EXACT_BUFFERS");
  traits.exact_allocations = exact && *exact && std::string_view(exact) != "0";
  return traits;
}

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (is_forked())
    throw Error("Metal cannot be used in a forked process; start workers with the 'spawn' method");
}

void note_start() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  if (registered != 0) throw Error("the process has no memory left for a fork handler");
}

}  // namespace mpsx::driver::metal
