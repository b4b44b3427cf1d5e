#include "runtime/watermarks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace mpsx::runtime {
namespace {

constexpr const char* kHigh = "PYTORCH_MPS_HIGH_WATERMARK_RATIO";
constexpr const char* kLow = "PYTORCH_MPS_LOW_WATERMARK_RATIO";
// PyTorch's defaults for a GPU that shares memory with the CPU (aten/src/ATen/mps/MPSAllocator.h).
constexpr double kDefaultHigh = 1.7, kDefaultLow = 1.4;
constexpr double kMaxRatio = 2;

double ratio(const char* name, double default_value) {
  const char* text = std::getenv(name);
  if (!text || !*text) return default_value;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  TORCH_CHECK(!*end && value >= 0 && value <= kMaxRatio, name, ": expected a number from 0 to ", kMaxRatio, ", got \"",
              text, "\"");
  return value;
}

size_t fraction_of(double ratio, size_t total) {
  return ratio > 0 ? size_t(ratio * double(total)) : std::numeric_limits<size_t>::max();
}

}  // namespace

Watermarks watermarks(const driver::Driver& driver) {
  const bool metal = driver.traits().memory == driver::Memory::buffers;
  const double high = ratio(kHigh, metal ? kDefaultHigh : 1);
  const double highest = high > 0 ? high : kMaxRatio;
  const double low = ratio(kLow, std::min(metal ? kDefaultLow : 1.0, highest));
  TORCH_CHECK(low <= highest, kLow, ": expected at most ", kHigh, " (", high, "), got ", low);
  return {fraction_of(low, driver.info().total_memory), fraction_of(high, driver.info().total_memory)};
}

size_t memory_limit(const char* text) {
  char* end = nullptr;
  double bytes = std::strtod(text, &end);
  std::string unit(end);
  std::erase_if(unit, [](unsigned char c) { return std::isspace(c); });
  constexpr std::string_view kUnits = "BKMGT";
  const size_t power = unit.empty() ? 0 : kUnits.find(char(std::toupper(static_cast<unsigned char>(unit[0]))));
  const bool known = unit.size() < 2 || unit.substr(1) == "B" || unit.substr(1) == "iB";
  TORCH_CHECK(end != text && bytes > 0 && bytes < 0x1p60 && power != std::string_view::npos && known,
              "MPSX_MEMORY_LIMIT: expected a number of bytes, like 2000000000, 2e9 or 2G, got '", text, "'");
  return size_t(std::ldexp(bytes, int(10 * power)));
}

}  // namespace mpsx::runtime
