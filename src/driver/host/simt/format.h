// Formats messages like printf.
#pragma once

#include <cstdio>
#include <string>

namespace mpsx::driver::host::simt {

template <typename... A>
std::string format(const char* pattern, A... a) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, a...);
  return text;
}

}  // namespace mpsx::driver::host::simt
