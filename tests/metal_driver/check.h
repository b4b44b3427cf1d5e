// Shared by the cases of the driver's test program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control.h"
#include "driver/driver.h"

namespace test {

using namespace mpsx::driver;

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);         \
      std::_Exit(1);                                                                        \
    }                                                                                       \
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
// A case that makes its own driver, if any.
#define BARE_CASE(name)                                  \
  static void name(const std::string& directory);        \
  static const ::test::Register name##_case(#name, name); \
  static void name([[maybe_unused]] const std::string& directory)

// A driver, its default stream, and short ways to launch.
struct Device {
  std::unique_ptr<Driver> driver;
  Stream* stream;

  explicit Device(const std::string& directory) : driver(make_metal_driver(directory)) {
    CHECK(driver);
    stream = driver->default_stream();
  }
  const Kernel& kernel(const char* name) {
    const Kernel* found = driver->kernel(name);
    CHECK(found);
    return *found;
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

// Memory of a driver, freed with it.
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

template <typename T>
Argument value(const T& v) {
  return {Argument::Kind::bytes, &v, sizeof v};
}
// Whether the last source was compiled with these options.
inline bool compiled(const std::string& options) {
  return std::string(mpsx_emulation_compiled()).rfind(options + "\n", 0) == 0;
}
inline Argument threadgroup(size_t bytes) { return {Argument::Kind::threadgroup, nullptr, bytes}; }

}  // namespace test
