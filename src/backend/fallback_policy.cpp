#include "backend/fallback_policy.h"

#include <c10/util/Exception.h>

#include <string_view>
#include <typeinfo>

namespace mpsx::backend {

std::atomic<FallbackMode> fallback_mode{FallbackMode::warn};

namespace {

std::atomic<WarnCallback> warn_callback{nullptr};
// The default handler prints to stderr. While it is installed, PyTorch's Python bindings do not collect warnings.
c10::WarningHandler* const base_handler = c10::WarningUtils::get_warning_handler();

}  // namespace

void set_warn_callback(WarnCallback callback) { warn_callback = callback; }

void warn_fallback(const std::string& op) {
  const std::string message =
      op +
      ": no mpsx kernel yet, falling back to the CPU (without copying). This warning appears once per operator; see "
      "mpsx.fallback for a report, or set MPSX_FALLBACK=silent or error.";
  auto* const handler = c10::WarningUtils::get_warning_handler();
  if (handler == base_handler) {
    if (auto callback = warn_callback.load()) {
      std::string error;
      const bool warned = callback(message.c_str(), &error);
      TORCH_CHECK(error.empty(), error);
      if (warned) return;
    }
  }
  // PyTorch's Python handler reports the line of Python code that called the operator, but only if the warning has no
  // file name. Other handlers need a file name.
  const bool python = std::string_view(typeid(*handler).name()).find("PyWarning") != std::string_view::npos;
  c10::warn(c10::Warning(c10::UserWarning(), {"fallback", python ? nullptr : "mpsx", 0}, message, /*verbatim=*/false));
}

void reject_fallback(const std::string& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": no mpsx kernel, and falling back to the CPU is disabled (MPSX_FALLBACK=",
                              "error, PYTORCH_ENABLE_MPS_FALLBACK=0 or mpsx.fallback.set_mode(\"error\"))");
}

}  // namespace mpsx::backend
