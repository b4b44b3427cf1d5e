// Reads an environment variable that has one of two values.
#pragma once

#include <c10/util/Exception.h>

#include <cstdlib>
#include <optional>
#include <string_view>

namespace mpsx::backend {

// Returns whether `variable` equals `yes`, or nullopt if it is unset or empty. Throws if it is neither `yes` nor `no`.
inline std::optional<bool> setting(const char* variable, std::string_view yes, std::string_view no) {
  const char* env = std::getenv(variable);
  const std::string_view found = env ? env : "";
  if (found.empty()) return std::nullopt;
  TORCH_CHECK(found == yes || found == no, variable, ": expected \"", yes, "\" or \"", no, "\", got \"", found, "\"");
  return found == yes;
}

}  // namespace mpsx::backend
