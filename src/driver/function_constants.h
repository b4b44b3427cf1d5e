// Parses the values of a kernel's function constants, which are part of its key ("axpy|has_bias=1|shape=4,8").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpsx::driver {

// A function constant that a kernel declares.
struct FunctionConstant {
  std::string name;
  uint32_t index;
  std::string scalar;  // "bool", "int", "half", …; empty for unsupported types
  uint32_t components;
};

// Returns the name of the type in Metal, for example "int2".
std::string type_text(const FunctionConstant&);

// The values of a kernel's function constants. In the key, a constant is identified by its name or index, and the
// components of a vector are separated by commas.
class FunctionConstants {
 public:
  // `kernel` is the name of the kernel, for error messages, and `text` is the rest of the key. Throws an Error that
  // names the constant and what was expected.
  FunctionConstants(std::string kernel, std::vector<FunctionConstant> declared, std::string_view text);
  FunctionConstants(const FunctionConstants&) = delete;
  FunctionConstants& operator=(const FunctionConstants&) = delete;

  // Returns pointers to the values in declaration order, or null for constants without a value. Values are
  // little-endian.
  const void* const* addresses() const { return addresses_.data(); }
  const std::vector<FunctionConstant>& declared() const { return declared_; }

 private:
  struct Value {
    alignas(32) std::array<unsigned char, 32> bytes{};  // long4 is the largest type
  };
  const std::string kernel_;
  const std::vector<FunctionConstant> declared_;
  std::vector<Value> values_;
  std::vector<const void*> addresses_;

  size_t find(std::string_view name) const;
  void set(size_t constant, std::string_view text);
};

}  // namespace mpsx::driver
