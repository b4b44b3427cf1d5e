#include "driver/host/simt/profiled_kernels.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "driver/host/simt/engine.h"
#include "driver/host/simt/line_table.h"
#include "driver/host/simt/profile.h"
#include "driver/kernel_profile.h"

namespace mpsx::driver {
namespace host::simt {
namespace {

struct State {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::shared_ptr<FindProfiled> find;
  std::map<const mpsx_kernel_record*, ProfiledKernel> kernels;
  std::vector<ProfiledLaunch> launches;
};
State& state() {
  static auto* s = new State;  // never destroyed, because threads may launch kernels while the process exits
  return *s;
}

// Loads a kernel from a library, which stays loaded.
ProfiledKernel open(const std::string& path, const char* kernel) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error("cannot load the profiled kernel " + path + ": " + dlerror());
  const auto* kernels = static_cast<const mpsx_kernel_table_t*>(dlsym(library, "mpsx_kernel_table"));
  const auto* table = static_cast<const mpsx_profile_table_t*>(dlsym(library, "mpsx_profile_table"));
  if (!kernels || !table || kernels->abi_version != MPSX_KERNEL_ABI_VERSION ||
      table->abi_version != MPSX_PROFILE_ABI_VERSION)
    throw Error(path + " was built for another version of mpsx");
  *kernels->simt = &kServices;
  *table->calls = &kProfileCalls;
  for (unsigned i = 0; i < kernels->count; ++i)
    if (std::strcmp(kernels->records[i]->name, kernel) == 0) return {kernels->records[i], table, path};
  throw Error(path + " has no kernel " + kernel);
}

}  // namespace

const ProfiledKernel* profiled_kernel(const mpsx_kernel_record& record) {
  State& s = state();
  if (!s.on.load(std::memory_order_relaxed)) return nullptr;
  std::shared_ptr<FindProfiled> find;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    const auto known = s.kernels.find(&record);
    if (known != s.kernels.end()) return &known->second;
    find = s.find;
  }
  if (!find) return nullptr;
  // Call `find` without holding the lock: it runs Python, and a thread that waits for the lock may hold the GIL.
  const std::string path = (*find)(image_of(reinterpret_cast<const void*>(record.thread_entry)).path, record.name);
  std::lock_guard<std::mutex> lock(s.mutex);
  return &s.kernels.emplace(&record, open(path, record.name)).first->second;
}

void keep_counts(const ProfiledKernel& kernel, const LaunchCounts& counts, const mpsx_launch& launch) {
  std::string text = counts.text(kernel.library, launch);
  std::lock_guard<std::mutex> lock(state().mutex);
  state().launches.push_back({kernel.record->name, std::move(text)});
}

}  // namespace host::simt

void set_kernel_profile(FindProfiled find) {
  auto& s = host::simt::state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.on = bool(find);
  s.find = find ? std::make_shared<FindProfiled>(std::move(find)) : nullptr;
}

std::vector<ProfiledLaunch> take_profiled_launches() {
  auto& s = host::simt::state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return std::exchange(s.launches, {});
}

}  // namespace mpsx::driver
