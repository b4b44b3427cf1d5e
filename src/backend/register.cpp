#include "backend/register.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceType.h>

#include <mutex>

#include "backend/allocator.h"
#include "backend/device.h"
#include "backend/pinned.h"
#include "runtime/device.h"

namespace mpsx::backend {
namespace {

// The CPU work of kernels goes to torch's own thread pool, so that a process has a single one.
void parallel_for(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body) {
  at::parallel_for(0, static_cast<int64_t>(total), static_cast<int64_t>(grain),
                   [&](int64_t begin, int64_t end) { body(begin, end); });
}

}  // namespace

void initialize(const std::string& library_directory) {
  static std::once_flag once;
  std::call_once(once, [&] {
    runtime::configure(library_directory, &parallel_for);
    c10::register_privateuse1_backend(kDeviceName);
    register_allocator();
    register_pinned_allocator();
    register_guard();
    register_hooks();
    register_vendor_ops();
    register_fallback();
  });
}

}  // namespace mpsx::backend
