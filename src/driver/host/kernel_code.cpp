#include "driver/host/kernel_code.h"

#if defined(__linux__) && defined(__x86_64__)
#  include <atomic>
#  include <mutex>

#  include "driver/host/simt/line_table.h"

namespace mpsx::driver::host {
namespace {

// A range of addresses. Ranges are never freed, because a signal handler may be reading them. When the library is
// closed, its range becomes empty and can be reused.
struct Range {
  std::atomic<uintptr_t> begin, end;
  Range* next;
};
std::atomic<Range*> ranges{nullptr};
std::mutex mutex;  // held while the list changes

}  // namespace

bool is_kernel_code(uintptr_t address) {
  for (const Range* r = ranges; r; r = r->next)
    if (r->begin <= address && address < r->end) return true;
  return false;
}

void register_kernel_code(const void* symbol) {
  const simt::Image image = simt::image_of(symbol);
  const std::lock_guard lock(mutex);
  Range* range = ranges;
  while (range && range->begin) range = range->next;
  if (!range) ranges = range = new Range{0, 0, ranges};
  range->begin = reinterpret_cast<uintptr_t>(image.begin);
  range->end = reinterpret_cast<uintptr_t>(image.begin) + image.size;
}

void unregister_kernel_code(const void* symbol) {
  const auto address = reinterpret_cast<uintptr_t>(symbol);
  const std::lock_guard lock(mutex);
  for (Range* range = ranges; range; range = range->next) {
    if (range->begin > address || address >= range->end) continue;
    range->end = 0;
    range->begin = 0;
    return;
  }
}

}  // namespace mpsx::driver::host

#else

namespace mpsx::driver::host {
void register_kernel_code(const void*) {}
void unregister_kernel_code(const void*) {}
bool is_kernel_code(uintptr_t) { return false; }
}  // namespace mpsx::driver::host

#endif
