// Stands in for Metal's validation layer: misuse of the API ends the process with a message.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace emulation {

[[noreturn]] void invalid(const char* format, ...) __attribute__((format(printf, 1, 2)));
#define EMULATION_REQUIRE(condition, ...) \
  do {                                    \
    if (!(condition)) ::emulation::invalid(__VA_ARGS__); \
  } while (0)

// Returns whether this call of `what` must fail (see control.h).
bool fails(const char* what);

struct Counts {
  std::atomic<unsigned long> waits{0}, command_buffers{0}, dispatches{0}, debug_groups{0}, captures{0}, pipelines{0};
  std::atomic<unsigned long> intervals_begun{0}, intervals_ended{0}, barriers{0};
};
Counts& counts();

// Sleeps for a random time, up to the maximum set with mpsx_emulation_delay().
void lag();
unsigned random_number();
// Blocks while mpsx_emulation_hold_completions(1) is in effect.
void wait_for_completions();

double seconds();

}  // namespace emulation
