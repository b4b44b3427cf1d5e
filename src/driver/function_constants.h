// The values of a kernel's function constants, out of its key: "axpy|has_bias=1|shape=4,8".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpsx::driver {

// As a kernel declares it.
struct FunctionConstant {
  std::string name;
  uint32_t index;
  std::string scalar;  // "bool", "int", "half", …; empty: a type that no value can be given to
  uint32_t components;
};

// "int2"
std::string type_text(const FunctionConstant&);

// A constant is called by its name or by its index; a vector's components have commas between them.
class FunctionConstants {
 public:
  // `kernel`: its name, for messages; `text`: the key behind it. Throws Error that names the constant and what was
  // expected.
  FunctionConstants(std::string kernel, std::vector<FunctionConstant> declared, std::string_view text);
  FunctionConstants(const FunctionConstants&) = delete;
  FunctionConstants& operator=(const FunctionConstants&) = delete;

  // The values in the order of the declarations, little endian, as everywhere that Metal runs. Null for a constant
  // without a value.
  const void* const* addresses() const { return addresses_.data(); }
  const std::vector<FunctionConstant>& declared() const { return declared_; }

 private:
  struct Value {
    alignas(32) std::array<unsigned char, 32> bytes{};  // the longest is a long4
  };
  const std::string kernel_;
  const std::vector<FunctionConstant> declared_;
  std::vector<Value> values_;
  std::vector<const void*> addresses_;

  size_t find(std::string_view name) const;
  void set(size_t constant, std::string_view text);
};

}  // namespace mpsx::driver
