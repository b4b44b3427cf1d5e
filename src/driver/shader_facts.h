// Additions to driver.h for drivers that compile Metal source themselves.
#pragma once

#include <string>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver {

// The source is wrong; the message has the compiler's words.
class SyntaxError : public Error {
  using Error::Error;
};

// The arguments that a kernel needs bound, by index.
struct Binding {
  uint32_t index;
  std::string name;
};

// A kernel whose arguments are known from its compiled code.
struct ReflectedKernel : Kernel {
  bool reflected = false;                      // whether they are
  std::vector<Binding> buffers, threadgroups;  // those in use, sorted by index
};

}  // namespace mpsx::driver
