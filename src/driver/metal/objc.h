// Ownership of Objective-C objects without ARC: an object from new…, alloc or copy is owned by the caller, who has to
// release it; every other object belongs to the current autorelease pool.
#pragma once

#import <Foundation/Foundation.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "driver/driver.h"

namespace mpsx::driver::metal {

// Objects that Metal hands out autoreleased live until the pool's scope ends. Every entry of the driver opens one: the
// threads that call have none. A class, and not @autoreleasepool, because exceptions pass through.
class AutoreleasePool {
 public:
  AutoreleasePool() : pool_([[NSAutoreleasePool alloc] init]) {}
  ~AutoreleasePool() { [pool_ drain]; }
  AutoreleasePool(const AutoreleasePool&) = delete;
  AutoreleasePool& operator=(const AutoreleasePool&) = delete;

 private:
  NSAutoreleasePool* pool_;
};

// One count of an object, given back when the owner goes.
template <typename T>
class Owned {
 public:
  Owned() = default;
  static Owned taking(T object) { return Owned(object); }  // a count that the caller has: of new…, alloc
  static Owned sharing(T object) { return Owned([object retain]); }
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

// A string for Metal, alive until the pool ends; nil if the bytes are not UTF-8.
inline NSString* to_ns(std::string_view text) { return [NSString stringWithUTF8String:std::string(text).c_str()]; }

inline std::string to_string(NSString* text) {
  const char* bytes = text ? text.UTF8String : nullptr;
  return bytes ? bytes : "";
}

inline std::string describe(NSError* error) {
  if (!error) return "no reason given";
  return to_string(error.localizedDescription) + " (code " + std::to_string(error.code) + ")";
}

// The Objective-C exception that is being handled.
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

// Calls `f` and rethrows an NSException as Error, the only type that callers of the driver know.
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
