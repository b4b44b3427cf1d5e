#include "driver/function_constants.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "driver/driver.h"

namespace mpsx::driver {
namespace {

// Rounds to nearest even, like Metal.
uint16_t half_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = uint16_t(bits >> 16 & 0x8000u);
  if (std::isnan(value)) return uint16_t(sign | 0x7e00u);
  const float size = std::fabs(value);
  if (size >= 65520.0f) return uint16_t(sign | 0x7c00u);
  int exponent = -13;
  if (size >= 0x1p-14f) std::frexp(size, &exponent);  // size < 2^exponent
  const int scale = exponent - 11;
  const auto units = uint16_t(std::nearbyint(std::ldexp(size, -scale)));  // a carry into the exponent is correct
  return uint16_t(sign | (((scale + 24) << 10) + units));
}

uint16_t bfloat_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

bool is_float(std::string_view type) { return type == "float" || type == "half" || type == "bfloat"; }

size_t size_of(std::string_view type) {
  if (type == "long" || type == "ulong") return 8;
  if (type == "int" || type == "uint" || type == "float") return 4;
  return type == "bool" || type == "char" || type == "uchar" ? 1 : 2;
}

// Parses the whole `text` as a number of type `type` and stores it in `to`. Returns false if it is not a number or is
// out of range.
bool parse(const std::string& text, std::string_view type, unsigned char* to) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front()))) return false;
  char* end = nullptr;
  errno = 0;
  if (is_float(type)) {
    const float value = std::strtof(text.c_str(), &end);
    const uint16_t small = type == "half" ? half_bits(value) : bfloat_bits(value);
    if (type == "float")
      std::memcpy(to, &value, 4);
    else
      std::memcpy(to, &small, 2);
    return *end == 0;
  }
  const size_t size = size_of(type);
  const bool is_unsigned = type.front() == 'u' || type == "bool";
  uint64_t bits;
  if (is_unsigned) {
    const uint64_t limit = type == "bool" ? 1 : size == 8 ? UINT64_MAX : (uint64_t(1) << size * 8) - 1;
    bits = std::strtoull(text.c_str(), &end, 0);
    if (text.front() == '-' || bits > limit) return false;
  } else {
    const int64_t value = std::strtoll(text.c_str(), &end, 0), limit = INT64_MAX >> (64 - size * 8);
    if (value > limit || value < -limit - 1) return false;
    bits = uint64_t(value);
  }
  std::memcpy(to, &bits, size);  // numbers are little-endian
  return *end == 0 && errno == 0;
}

}  // namespace

std::string type_text(const FunctionConstant& c) {
  return c.components == 1 ? c.scalar : c.scalar + std::to_string(c.components);
}

FunctionConstants::FunctionConstants(std::string kernel, std::vector<FunctionConstant> declared, std::string_view text)
    : kernel_(std::move(kernel)),
      declared_(std::move(declared)),
      values_(declared_.size()),
      addresses_(std::max<size_t>(declared_.size(), 1)) {
  while (!text.empty()) {
    const size_t next = std::min(text.find('|'), text.size());
    const std::string_view one = text.substr(0, next);
    const size_t equals = one.find('=');
    if (equals == one.npos) throw Error(kernel_ + ": expected constant=value, got \"" + std::string(one) + "\"");
    const size_t constant = find(one.substr(0, equals));
    if (addresses_[constant])
      throw Error(kernel_ + ": function constant " + declared_[constant].name + " is given twice");
    set(constant, one.substr(equals + 1));
    text.remove_prefix(std::min(next + 1, text.size()));
  }
}

size_t FunctionConstants::find(std::string_view name) const {
  const bool by_index = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
  std::string known;
  for (size_t i = 0; i < declared_.size(); ++i) {
    const FunctionConstant& c = declared_[i];
    if (by_index ? name == std::to_string(c.index) : name == c.name) return i;
    known += (i ? ", " : "; it has ") + (c.name + " (" + type_text(c)) + ", index " + std::to_string(c.index) + ")";
  }
  throw Error(kernel_ + ": no function constant " + (by_index ? "of index " : "named ") + std::string(name) + known);
}

void FunctionConstants::set(size_t constant, std::string_view text) {
  const FunctionConstant& c = declared_[constant];
  if (c.scalar.empty()) throw Error(kernel_ + ": function constant " + c.name + " has a type that cannot be set");
  Value& value = values_[constant];
  std::string_view rest = text;
  bool fits = true;
  for (unsigned i = 0; fits && i < c.components; ++i) {
    const bool last = i + 1 == c.components;
    const size_t comma = last ? rest.size() : rest.find(',');
    fits = comma != rest.npos &&
           parse(std::string(rest.substr(0, comma)), c.scalar, value.bytes.data() + i * size_of(c.scalar));
    if (fits) rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (!fits)
    throw Error(kernel_ + ": function constant " + c.name + ": expected a value of type " + type_text(c) + ", got " +
                std::string(text));
  addresses_[constant] = value.bytes.data();
}

}  // namespace mpsx::driver
