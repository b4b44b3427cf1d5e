// Marks an argument of a launch that begins with the seed and the offset of a random number generator, which a replay
// (launch_recording.h) replaces: launch.bytes(random_argument(params)).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpsx::runtime {

void note_random_argument(const void* value);

template <typename T>
const T& random_argument(const T& value) {
  static_assert(offsetof(T, seed) == 0 && offsetof(T, offset) == sizeof(uint64_t));
  note_random_argument(&value);
  return value;
}

}  // namespace mpsx::runtime
