#include "backend/register.h"

#include <c10/core/DeviceType.h>

#include <mutex>

#include "backend/allocator.h"
#include "backend/device.h"
#include "backend/engine.h"
#include "backend/parallel.h"
#include "backend/pinned.h"
#include "runtime/device.h"

namespace mpsx::backend {

void initialize(std::function<std::string()> find_libraries) {
  static std::once_flag once;
  std::call_once(once, [&] {
    runtime::configure(std::move(find_libraries), &parallel_for);
    register_engine();
    c10::register_privateuse1_backend(kDeviceName);
    register_allocator();
    register_pinned_allocator();
    register_guard();
    register_hooks();
    register_fallback();
    register_profiler_stubs();
  });
}

}  // namespace mpsx::backend
