// Additions to driver.h for drivers that compile Metal source.
#pragma once

#include <string>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver {

// The source does not compile; the message is the compiler's.
class SyntaxError : public Error {
  using Error::Error;
};

// An argument that must be bound.
struct Binding {
  uint32_t index;
  std::string name;
};

// A kernel whose arguments the compiled code describes.
struct ReflectedKernel : Kernel {
  bool reflected = false;                      // whether the arguments are known
  std::vector<Binding> buffers, threadgroups;  // in use, sorted by index
};

}  // namespace mpsx::driver
