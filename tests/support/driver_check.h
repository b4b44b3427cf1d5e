// Helpers for the drivers' test programs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// Calls `f`, which must throw an E whose message contains every string in `parts`.
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
// Defines a test case that does not receive a driver. It may create its own.
#define BARE_CASE(name)                                  \
  static void name(const std::string& directory);        \
  static const ::test::Register name##_case(#name, name); \
  static void name([[maybe_unused]] const std::string& directory)

template <typename T>
Argument value(const T& v) {
  return {Argument::Kind::bytes, &v, sizeof v};
}
inline Argument threadgroup(size_t bytes) { return {Argument::Kind::threadgroup, nullptr, bytes}; }

struct AnyDevice {
  std::unique_ptr<Driver> driver;
  const Kernel& kernel(const char* name) {
    const Kernel* found = driver->kernel(name);
    CHECK(found);
    return *found;
  }
};

}  // namespace test
