// Extensions of driver.h for drivers that compile Metal source.
#pragma once

#include <string>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver {

// Thrown with the compiler's message if Metal source does not compile.
class SyntaxError : public Error {
  using Error::Error;
};

// An argument that the caller must bind.
struct Binding {
  uint32_t index;
  std::string name;
};
struct TensorBinding : Binding {
  std::string element;         // "half", or empty for a type that has no name in Metal's host API
  std::vector<int64_t> sizes;  // -1 for a dynamic size
};

// A kernel with argument reflection from the compiler.
struct ReflectedKernel : Kernel {
  bool reflected = false;                      // whether the arguments are known
  std::vector<Binding> buffers, threadgroups;  // in use, sorted by index
  std::vector<TensorBinding> tensors;
};

}  // namespace mpsx::driver
