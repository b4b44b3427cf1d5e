// Reads environment variables.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "driver/driver.h"

namespace mpsx::driver {

inline std::string env_string(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Returns whether the variable is set to a value other than "0" or an empty string.
inline bool env_flag(const char* name) {
  const std::string value = env_string(name);
  return !value.empty() && value != "0";
}

// Returns the value of the variable, or `unset` if it is unset or empty. Throws Error unless the value is a number
// between `low` and `high`.
inline uint64_t env_number(const char* name, uint64_t low, uint64_t high, uint64_t unset) {
  const std::string text = env_string(name);
  if (text.empty()) return unset;
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (*end || errno || text[0] == '-' || value < low || value > high)
    throw Error(std::string(name) + ": expected a number from " + std::to_string(low) + " to " + std::to_string(high) +
                ", got \"" + text + "\"");
  return value;
}

}  // namespace mpsx::driver
