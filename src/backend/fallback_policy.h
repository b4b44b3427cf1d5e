// The policy for operators without a native kernel: warn once per operator, stay silent, or reject the call. Python
// sets it (python/mpsx/fallback.py).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::backend {

enum class FallbackMode : uint8_t { warn, silent, error };

extern std::atomic<FallbackMode> fallback_mode;

// Warns through Python if PyTorch's Python handler for warnings is not installed, for example in calls through
// torch.ops. Returns false if it could not warn. Sets `error` if Python turned the warning into an error.
using WarnCallback = bool (*)(const char* message, std::string* error);
void set_warn_callback(WarnCallback callback);

void warn_fallback(const std::string& op);
[[noreturn]] void reject_fallback(const std::string& op);

}  // namespace mpsx::backend
