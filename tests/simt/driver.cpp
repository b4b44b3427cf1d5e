// A C interface to the simt driver and its components for tests without torch. simt_library.py calls it through ctypes.
#include "driver/driver.h"

#include <cstring>
#include <string>

#include "driver/host/simt/line_table.h"
#include "driver/host/simt/shadow.h"

using namespace mpsx::driver;
namespace simt = mpsx::driver::host::simt;

namespace {

thread_local std::string text;

void in_order(uint64_t total, uint64_t, const std::function<void(uint64_t, uint64_t)>& body) { body(0, total); }

const char* kept(std::string s) {
  text = std::move(s);
  return text.c_str();
}

}  // namespace

extern "C" {

// Returns null on failure. The error is then available from message().
Driver* open_driver(const char* directory) {
  try {
    return make_simt_driver(directory, &in_order).release();
  } catch (const std::exception& e) {
    text = e.what();
    return nullptr;
  }
}
const char* message() { return text.c_str(); }

void* allocate(Driver* driver, size_t bytes) { return driver->allocate(bytes).contents; }
void release(Driver* driver, void* p, size_t bytes) { driver->release({p, p, bytes}); }
void wrap(Driver* driver, void* p, size_t bytes) { driver->wrap(p, bytes); }

// Returns the error message, or an empty string on success.
const char* dispatch(Driver* driver, const char* name, const Argument* arguments, size_t count, const uint32_t* grid,
                     const uint32_t* group, bool by_threads) {
  const Kernel* kernel = driver->kernel(name);
  if (!kernel) return kept(std::string("no kernel ") + name);
  try {
    driver->dispatch(driver->default_stream(), *kernel, arguments, count,
                     {{grid[0], grid[1], grid[2]}, {group[0], group[1], group[2]}, by_threads, 1});
  } catch (const Error& e) {
    return kept(e.what());
  }
  return "";
}

// Returns "file:line", or an empty string if the line is not known.
const char* line_of(const char* path, uint64_t address) {
  const simt::LineTable table(path);
  const simt::SourceLine s = table.find(address);
  return kept(s.file ? std::string(s.file) + ":" + std::to_string(s.line) : "");
}

simt::Shadow* new_shadow(size_t bytes) { return new simt::Shadow(bytes); }
void delete_shadow(simt::Shadow* s) { delete s; }
void shadow_begin(simt::Shadow* s) { s->begin_group(); }
void shadow_barrier(simt::Shadow* s, bool fences) { s->threadgroup_barrier(fences); }
void shadow_simd_barrier(simt::Shadow* s, unsigned simdgroup, bool fences) { s->simdgroup_barrier(simdgroup, fences); }
// Performs an access. Returns the fault's code, plus 16 if a barrier without a fence separates the two accesses, plus
// 32 times the index of the thread that made the earlier access.
unsigned shadow_access(simt::Shadow* s, char kind, size_t offset, size_t bytes, unsigned thread) {
  simt::Shadow::Finding f;
  switch (kind) {
    case 'r':
      f = s->read(offset, bytes, thread, 1);
      break;
    case 'w':
      f = s->write(offset, bytes, thread, 1);
      break;
    case 'l':
      f = s->atomic(offset, bytes, thread, 1, true, false);
      break;
    case 's':
      f = s->atomic(offset, bytes, thread, 1, false, true);
      break;
    default:
      f = s->atomic(offset, bytes, thread, 1, true, true);
  }
  return unsigned(f.fault) + 16 * f.unfenced + 32 * f.thread;
}
}
