// What happens when an operator without a native kernel is called: warn once an operator, stay silent, or refuse.
// Python chooses (python/mpsx/fallback.py); this only holds the choice and tells.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::backend {

enum class FallbackMode : uint8_t { warn, silent, error };

extern std::atomic<FallbackMode> fallback_mode;

// Warns somebody who calls operators without one of torch's own warning handlers around (torch.ops). Returns false if
// it could not; fills `error` (for warnings turned into errors).
using WarnCallback = bool (*)(const char* message, std::string* error);
void set_warn_callback(WarnCallback callback);

void warn_fallback(const std::string& op);
[[noreturn]] void refuse_fallback(const std::string& op);

}  // namespace mpsx::backend
