// Helpers for the test cases of the driver's test program.
#pragma once

#include "../../support/driver_check.h"
#include "control.h"

namespace test {

// A driver with its default stream, plus functions that launch kernels.
struct Device : AnyDevice {
  Stream* stream;

  explicit Device(const std::string& directory) : AnyDevice{make_metal_driver(directory)} {
    CHECK(driver);
    stream = driver->default_stream();
  }
  void launch(const char* name, const std::vector<Argument>& arguments, Size grid, Size group = {1, 1, 1},
              bool by_threads = true) {
    driver->dispatch(stream, kernel(name), arguments.data(), arguments.size(), {grid, group, by_threads, 1});
  }
  void wait() { driver->synchronize(stream); }
};
#define CASE(name)                                        \
  static void name(::test::Device& device);               \
  static const ::test::Register name##_case(#name, [](const std::string& directory) { \
    ::test::Device device(directory);                     \
    name(device);                                         \
  });                                                     \
  static void name([[maybe_unused]] ::test::Device& device)

// Device memory that the destructor releases.
template <typename T>
struct Array {
  Driver& driver;
  Buffer buffer;
  Array(Device& device, size_t count) : driver(*device.driver), buffer(driver.allocate(count * sizeof(T))) {}
  ~Array() { driver.release(buffer); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T& operator[](size_t i) { return static_cast<T*>(buffer.contents)[i]; }
  Argument argument(size_t first = 0) const { return {Argument::Kind::buffer, buffer.handle, first * sizeof(T)}; }
};

// Returns whether the last source was compiled with these options.
inline bool compiled(const std::string& options) {
  return std::string(mpsx_emulation_compiled()).rfind(options + "\n", 0) == 0;
}

}  // namespace test
