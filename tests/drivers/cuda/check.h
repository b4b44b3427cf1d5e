// Helpers for the test cases of the driver's test program.
#pragma once

#include <cstring>

#include "../../support/driver_check.h"
#include "fake_control.h"

#define CASE BARE_CASE

namespace test {

fake::Control& gpu();  // controls the fake libcuda that the driver loads

inline Argument at(const Buffer& buffer, size_t offset = 0) { return {Argument::Kind::buffer, buffer.handle, offset}; }
inline Argument absent() { return {Argument::Kind::buffer, nullptr, 0}; }

// Returns a parameter of a recorded launch.
template <typename T>
T parameter(const fake::Launch& launch, size_t index, size_t offset = 0) {
  T v;
  std::memcpy(&v, launch.parameters.at(index).data() + offset, sizeof v);
  return v;
}

// A driver, plus functions that launch kernels.
struct Device : AnyDevice {
  explicit Device(const std::string& directory) : AnyDevice{make_cuda_driver(directory)} {}
  uint64_t launch(const char* name, const std::vector<Argument>& arguments, Dispatch dispatch = {}) {
    return driver->dispatch(driver->default_stream(), kernel(name), arguments.data(), arguments.size(), dispatch);
  }
};

}  // namespace test
