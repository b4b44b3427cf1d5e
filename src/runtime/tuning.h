// The numbers that launchers choose kernels by: speeds of tiles, splits, threads, and crossover points.
//
// Their values come from tuning.def, which has defaults and rows for GPU families. A tuning file, which
// `python -m mpsx tune` measures on the GPU at hand, replaces some of them when the driver starts. A launcher reads a
// number as `tuning().matmul_split_k`, which costs one load of a pointer.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "driver/driver.h"

namespace mpsx::runtime {

struct Tuning {
#define MPSX_TUNABLE(name, value, low, high) double name = value;
#define MPSX_TUNED(family, name, value)
#include "runtime/tuning.def"
#undef MPSX_TUNABLE
#undef MPSX_TUNED
};

// A number of the table, with the range of values that it may have.
struct Tunable {
  const char* name;
  double Tuning::* member;
  double low, high;
};
std::span<const Tunable> tunables();
// Returns the table's values for a GPU family.
Tuning table_for(std::string_view gpu_family);

namespace detail {
extern std::atomic<const Tuning*> current_tuning;
const Tuning& load_tuning();
}  // namespace detail

// Returns the numbers in use. The first call starts the driver and reads the tuning file.
inline const Tuning& tuning() {
  const Tuning* const current = detail::current_tuning.load(std::memory_order_acquire);
  return current ? *current : detail::load_tuning();
}
// Replaces the numbers of the following launches by the table's values, except for the given lines of "name value".
// Throws if there is no such number or a value is out of its range.
void set_tuning(const std::string& lines);

// Registers the function that reads the tuning file. It returns the same kind of lines.
void set_tuning_reader(std::function<std::string()> reader);

}  // namespace mpsx::runtime
