// Extensions of driver.h for drivers that compile Metal source.
#pragma once

#include <string>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver {

// Thrown if Metal source does not compile, with the compiler's message.
class SyntaxError : public Error {
  using Error::Error;
};

// An argument that the caller must bind.
struct Binding {
  uint32_t index;
  std::string name;
};

// A kernel with argument reflection from the compiler.
struct ReflectedKernel : Kernel {
  bool reflected = false;                      // whether reflection is available
  std::vector<Binding> buffers, threadgroups;  // used by the kernel, sorted by index
};

}  // namespace mpsx::driver
