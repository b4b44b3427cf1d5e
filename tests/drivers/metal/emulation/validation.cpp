#include "validation.h"

#include <execinfo.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "control.h"

namespace emulation {
namespace {

struct Failure {
  int after = 0, times = 0;
};

struct Settings {
  std::mutex mutex;
  std::map<std::string, Failure> failures;
  std::condition_variable changed;
  bool completions_held = false;
  unsigned delay = 300;
  std::mt19937 random{std::random_device{}()};

  Settings() {
    if (const char* text = std::getenv("MPSX_EMULATION_DELAY")) delay = unsigned(std::atoi(text));
    if (const char* text = std::getenv("MPSX_EMULATION_SEED")) random.seed(unsigned(std::atoi(text)));
    const char* text = std::getenv("MPSX_EMULATION_FAIL");
    for (char what[64]; text; text = std::strchr(text, ',')) {
      Failure failure{0, 1};
      text += *text == ',';
      if (std::sscanf(text, "%63[^:,]:%d:%d", what, &failure.after, &failure.times) > 0) failures[what] = failure;
    }
  }
};
Settings& settings() {
  static Settings* s = new Settings;
  return *s;
}

}  // namespace

void invalid(const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "\nemulated Metal: %s\n", text);
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  std::abort();
}

bool fails(const char* what) {
  Settings& s = settings();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.failures.find(what);
  if (found == s.failures.end()) return false;
  if (found->second.after > 0) return --found->second.after, false;
  if (--found->second.times <= 0) s.failures.erase(found);
  return true;
}

Counts& counts() {
  static Counts* c = new Counts;
  return *c;
}

void lag() {
  unsigned time = 0;
  {
    Settings& s = settings();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.delay) time = s.random() % (s.delay + 1);
  }
  if (time) usleep(time);
}

unsigned random_number() {
  Settings& s = settings();
  std::lock_guard<std::mutex> lock(s.mutex);
  return unsigned(s.random());
}

void wait_for_completions() {
  Settings& s = settings();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.changed.wait(lock, [&] { return !s.completions_held; });
}

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

}  // namespace emulation

extern "C" {

void mpsx_emulation_fail(const char* what, int after, int times) {
  auto& s = emulation::settings();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (times > 0)
    s.failures[what] = {after, times};
  else
    s.failures.erase(what);
}
void mpsx_emulation_delay(unsigned microseconds) {
  auto& s = emulation::settings();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.delay = microseconds;
}
void mpsx_emulation_hold_completions(int hold) {
  auto& s = emulation::settings();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.completions_held = hold;
  }
  s.changed.notify_all();
}
unsigned long mpsx_emulation_waits(void) { return emulation::counts().waits; }
unsigned long mpsx_emulation_command_buffers(void) { return emulation::counts().command_buffers; }
unsigned long mpsx_emulation_dispatches(void) { return emulation::counts().dispatches; }
unsigned long mpsx_emulation_barriers(void) { return emulation::counts().barriers; }
unsigned long mpsx_emulation_debug_groups(void) { return emulation::counts().debug_groups; }
unsigned long mpsx_emulation_pipelines(void) { return emulation::counts().pipelines; }
unsigned long mpsx_emulation_captures(void) { return emulation::counts().captures; }
unsigned long mpsx_emulation_intervals_begun(void) { return emulation::counts().intervals_begun; }
unsigned long mpsx_emulation_intervals_ended(void) { return emulation::counts().intervals_ended; }
}
