#include "backend/shared_device.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace mpsx::backend {
namespace {

std::atomic<int> group_size{1};

// Returns how many processes the launcher has started on this machine, or 0 if unknown. torchrun sets LOCAL_WORLD_SIZE
// before the program starts, so this number is known before any group exists.
int local_world_size() {
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  int count = 0;
  if (!text || std::from_chars(text, text + std::strlen(text), count).ec != std::errc()) return 0;
  return std::clamp(count, 0, int(std::numeric_limits<c10::DeviceIndex>::max()));
}

}  // namespace

void share_device(int processes) {
  int known = group_size.load();
  while (known < processes && !group_size.compare_exchange_weak(known, processes)) {
  }
}

int device_count() {
  const int local = local_world_size();
  return local > 0 ? local : group_size.load();
}

bool is_device_index(int index) {
  return index >= 0 && (index < group_size.load(std::memory_order_relaxed) || index < local_world_size());
}

}  // namespace mpsx::backend
