#include "runtime/device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <cstdlib>
#include <mutex>

#include "runtime/fork.h"

namespace mpsx::runtime {
namespace {

struct State {
  std::mutex mutex;
  std::function<std::string()> find_libraries;
  driver::ParallelFor parallel_for = nullptr;
  std::unique_ptr<driver::Driver> owner;
  std::atomic<driver::Driver*> driver{nullptr};
  bool forked = false;
};
// The state is never destroyed, because tensors may outlive static objects.
State& state() {
  static State* s = new State;
  return *s;
}

std::string wanted_driver() {
  const char* env = std::getenv("MPSX_DRIVER");
  return env ? env : "";
}

std::unique_ptr<driver::Driver> make_driver(const State& s, const std::string& directory) {
  const std::string wanted = wanted_driver();
  TORCH_CHECK(wanted.empty() || wanted == "host" || wanted == "simt" || wanted == "metal" || wanted == "cuda",
              "MPSX_DRIVER: expected \"host\", \"simt\", \"metal\" or \"cuda\", got \"", wanted, "\"");
  if (wanted == "simt") return driver::make_simt_driver(directory, s.parallel_for);
  if (wanted == "cuda") return driver::make_cuda_driver(directory);
  if (wanted != "host") {
    if (auto metal = driver::make_metal_driver(directory)) return metal;
    TORCH_CHECK(wanted.empty(), "MPSX_DRIVER=metal: this machine has no Metal device");
  }
  return driver::make_host_driver(directory, s.parallel_for);
}

}  // namespace

void configure(std::function<std::string()> find_libraries, driver::ParallelFor parallel_for) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.find_libraries = std::move(find_libraries);
  s.parallel_for = parallel_for;
}

driver::Driver& driver() {
  State& s = state();
  if (auto* d = s.driver.load(std::memory_order_acquire)) return *d;
  TORCH_CHECK(s.find_libraries, "mpsx: the device was used before the package was imported");
  // Call find_libraries without holding our lock: it runs Python, and a thread that waits for the lock may hold the
  // GIL.
  check_not_forked();
  const std::string directory = s.find_libraries();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.owner) {
    try {
      s.owner = make_driver(s, directory);
    } catch (const driver::Error& e) {
      TORCH_CHECK(false, "mpsx: ", e.what());
    }
    // Clear the driver in a forked child, so that the child's next call to driver() reaches check_not_forked(), which
    // throws.
    pthread_atfork(nullptr, nullptr, [] {
      state().forked = true;
      state().driver.store(nullptr, std::memory_order_release);
    });
    s.driver.store(s.owner.get(), std::memory_order_release);
  }
  return *s.owner;
}

bool driver_started() { return state().driver.load(std::memory_order_acquire) != nullptr; }

bool kernels_run_on_caller() {
  const auto* d = state().driver.load(std::memory_order_acquire);
  return d && !d->traits().asynchronous;
}

bool expects_cpu_driver() {
  const std::string wanted = wanted_driver();
#ifdef __APPLE__
  return wanted == "host" || wanted == "simt";
#else
  return wanted.empty() || wanted == "host" || wanted == "simt";
#endif
}

bool is_bad_fork() { return state().forked; }

void check_not_forked() {
  TORCH_CHECK(!is_bad_fork(), "Cannot re-initialize mpsx in a forked subprocess. To use mpsx with multiprocessing, ",
              "start workers with the 'spawn' method, for instance ",
              "DataLoader(…, multiprocessing_context=\"spawn\")");
}

}  // namespace mpsx::runtime
