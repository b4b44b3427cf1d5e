// Helpers that the cases of the driver's test program share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "fake_control.h"

namespace test {

using namespace mpsx::driver;

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                                \
    }                                                                               \
  } while (0)

// Calls `f`, which must throw an E whose message has all of `parts`.
template <typename E = Error, typename F>
void throws(F&& f, std::initializer_list<std::string> parts, int line) {
  try {
    f();
  } catch (const E& e) {
    for (const auto& part : parts)
      if (std::string(e.what()).find(part) == std::string::npos) {
        std::fprintf(stderr, "line %d: expected \"%s\" in \"%s\"\n", line, part.c_str(), e.what());
        std::_Exit(1);
      }
    return;
  }
  std::fprintf(stderr, "line %d: expected an error\n", line);
  std::_Exit(1);
}
#define THROWS(expression, ...) ::test::throws([&] { expression; }, {__VA_ARGS__}, __LINE__)

struct Case {
  const char* name;
  std::function<void(const std::string& directory)> run;
};
std::vector<Case>& cases();
struct Register {
  Register(const char* name, std::function<void(const std::string&)> run) { cases().push_back({name, std::move(run)}); }
};
#define CASE(name)                                        \
  static void name(const std::string& directory);         \
  static const ::test::Register name##_case(#name, name); \
  static void name([[maybe_unused]] const std::string& directory)

fake::Control& gpu();  // of the libcuda that the driver opens

inline Argument at(const Buffer& buffer, size_t offset = 0) { return {Argument::Kind::buffer, buffer.handle, offset}; }
inline Argument absent() { return {Argument::Kind::buffer, nullptr, 0}; }
template <typename T>
Argument value(const T& v) {
  return {Argument::Kind::bytes, &v, sizeof v};
}
inline Argument threadgroup(size_t bytes) { return {Argument::Kind::threadgroup, nullptr, bytes}; }

// A number out of a recorded launch.
template <typename T>
T parameter(const fake::Launch& launch, size_t index, size_t offset = 0) {
  T v;
  std::memcpy(&v, launch.parameters.at(index).data() + offset, sizeof v);
  return v;
}

// A driver with short ways to launch.
struct Device {
  std::unique_ptr<Driver> driver;
  explicit Device(const std::string& directory) : driver(make_cuda_driver(directory)) {}
  const Kernel& kernel(const char* name) {
    const Kernel* found = driver->kernel(name);
    CHECK(found);
    return *found;
  }
  uint64_t launch(const char* name, const std::vector<Argument>& arguments, Dispatch dispatch = {}) {
    return driver->dispatch(driver->default_stream(), kernel(name), arguments.data(), arguments.size(), dispatch);
  }
};

}  // namespace test
