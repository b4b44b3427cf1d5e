// The policy for operators without a native kernel: warn once per operator, stay silent, or refuse. Python chooses it
// (python/mpsx/fallback.py); here it is stored and carried out.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::backend {

enum class FallbackMode : uint8_t { warn, silent, error };

extern std::atomic<FallbackMode> fallback_mode;

// Warns a Python caller where none of torch's warning handlers is installed (torch.ops). Returns false if it could not;
// sets `error` when the warning became an error.
using WarnCallback = bool (*)(const char* message, std::string* error);
void set_warn_callback(WarnCallback callback);

void warn_fallback(const std::string& op);
[[noreturn]] void refuse_fallback(const std::string& op);

}  // namespace mpsx::backend
