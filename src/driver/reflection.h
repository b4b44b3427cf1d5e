// Extensions of driver.h for drivers that compile Metal source.
#pragma once

#include <string>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver {

// Metal source does not compile. The error contains the compiler's message.
class SyntaxError : public Error {
  using Error::Error;
};

// An argument that the caller must bind.
struct Binding {
  uint32_t index;
  std::string name;
};
struct TensorBinding : Binding {
  std::string element;         // "half", for example; empty if Metal's host API has no name for the type
  std::vector<int64_t> sizes;  // -1 for a dynamic size
};

// A kernel with information from the compiler about its arguments.
struct ReflectedKernel : Kernel {
  bool reflected = false;                      // whether this information is available
  std::vector<Binding> buffers, threadgroups;  // arguments in use, sorted by index
  std::vector<TensorBinding> tensors;
};

}  // namespace mpsx::driver
