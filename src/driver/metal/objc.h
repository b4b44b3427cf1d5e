// Manages Objective-C objects without ARC. The caller of new…, alloc or copy owns the returned object and must release
// it. All other objects belong to the current autorelease pool.
#pragma once

#import <Foundation/Foundation.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "driver/driver.h"

// The functions that @autoreleasepool calls (in Clang's documentation of ARC). They are cheaper than an
// NSAutoreleasePool.
extern "C" void* objc_autoreleasePoolPush(void);
extern "C" void objc_autoreleasePoolPop(void*);

namespace mpsx::driver::metal {

// Releases autoreleased objects at the end of the scope. Every entry point of the driver creates a pool, because the
// calling threads have none. Unlike @autoreleasepool, this class is exception-safe.
class AutoreleasePool {
 public:
  AutoreleasePool() : pool_(objc_autoreleasePoolPush()) {}
  ~AutoreleasePool() { objc_autoreleasePoolPop(pool_); }
  AutoreleasePool(const AutoreleasePool&) = delete;
  AutoreleasePool& operator=(const AutoreleasePool&) = delete;

 private:
  void* pool_;
};

// A strong reference to an object.
template <typename T>
class Owned {
 public:
  Owned() = default;
  static Owned adopt(T object) { return Owned(object); }  // takes ownership of the result of new… or alloc
  static Owned retain(T object) { return Owned([object retain]); }
  Owned(const Owned& other) : object_([other.object_ retain]) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { [object_ release]; }

  T get() const { return object_; }
  explicit operator bool() const { return object_ != nil; }
  void reset() { *this = Owned(); }

 private:
  explicit Owned(T object) : object_(object) {}
  T object_ = nil;
};

// Returns an autoreleased string, or nil if the text is not valid UTF-8.
inline NSString* to_ns(std::string_view text) { return [NSString stringWithUTF8String:std::string(text).c_str()]; }

inline std::string to_string(NSString* text) {
  const char* bytes = text ? text.UTF8String : nullptr;
  return bytes ? bytes : "";
}

inline std::string describe(NSError* error) {
  if (!error) return "no reason given";
  return to_string(error.localizedDescription) + " (code " + std::to_string(error.code) + ")";
}

// Returns a description of the Objective-C exception that is being handled.
inline std::string describe_raised() {
#ifdef __APPLE__
  @try {
    throw;
  } @catch (id raised) {
    return ": " + to_string([raised description]);
  }
#else
  return "";
#endif
}

// Calls `f`. If it throws an NSException, rethrows it as Error, which the driver's callers expect.
template <typename F>
auto translating_exceptions(F&& f) {
  try {
    return f();
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    AutoreleasePool pool;
    throw Error("Metal raised an exception" + describe_raised());
  }
}

}  // namespace mpsx::driver::metal
