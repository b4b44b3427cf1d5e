#include "memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "driver/host/simt/allocations.h"
#include "validation.h"

namespace emulation {
namespace {

// Metal does not initialize memory. This byte pattern is NaN as a float and -1 as an integer.
constexpr int kGarbage = 0xff;

struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, size_t> sizes;  // address -> size of each CPU mapping
};
Mappings& mappings() {
  static Mappings* m = new Mappings;
  return *m;
}

// With MPSX_EMULATION_GUARD=0, memory that the GPU uses remains accessible. Tests with several blocks per buffer need
// it.
bool guards() {
  static const bool on = [] {
    const char* value = std::getenv("MPSX_EMULATION_GUARD");
    return !value || std::string_view(value) != "0";
  }();
  return on;
}

struct sigaction previous;

// Handles faults on protected pages, and forwards all other faults.
void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  size_t offset = 0, size = 0;
  {
    Mappings& m = mappings();
    std::lock_guard<std::mutex> lock(m.mutex);
    auto it = m.sizes.upper_bound(address);
    if (it != m.sizes.begin() && address - std::prev(it)->first < std::prev(it)->second) {
      --it;
      offset = address - it->first;
      size = it->second;
    }
  }
  if (size) invalid("the CPU touched memory that the GPU still owns: byte %zu of a buffer of %zu", offset, size);
  if (previous.sa_flags & SA_SIGINFO) {
    if (previous.sa_sigaction) return previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    return previous.sa_handler(signal);
  }
  ::signal(signal, SIG_DFL);  // the access is repeated and ends the process
}

void watch_faults() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &previous);
    return true;
  }();
  (void)once;
}

}  // namespace

void allow(void* memory, size_t bytes) { mpsx::driver::host::simt::allocations().add(memory, bytes); }
void forbid(void* memory, size_t bytes) { mpsx::driver::host::simt::allocations().release(memory, bytes); }

SharedMemory::SharedMemory(size_t bytes) : size_(bytes) {
  watch_faults();
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  mapped_ = (bytes + page - 1) / page * page;
  const int file = memfd_create("emulated MTLBuffer", MFD_CLOEXEC);
  if (file < 0) return;
  if (ftruncate(file, off_t(mapped_)) == 0) {
    cpu_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    gpu_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  if (cpu_ == MAP_FAILED || gpu_ == MAP_FAILED) {
    cpu_ = gpu_ = nullptr;
    return;
  }
  if (bytes <= (size_t(1) << 22)) std::memset(gpu_, kGarbage, bytes);
  allow(gpu_, size_);
  Mappings& m = mappings();
  std::lock_guard<std::mutex> lock(m.mutex);
  m.sizes.emplace(reinterpret_cast<uintptr_t>(cpu_), mapped_);
}

SharedMemory::~SharedMemory() {
  if (!cpu_) return;
  {
    Mappings& m = mappings();
    std::lock_guard<std::mutex> lock(m.mutex);
    m.sizes.erase(reinterpret_cast<uintptr_t>(cpu_));
  }
  EMULATION_REQUIRE(owners_ == 0, "a buffer is freed while the GPU still uses it");
  forbid(gpu_, size_);
  munmap(cpu_, mapped_);
  munmap(gpu_, mapped_);
}

void SharedMemory::give_to_gpu() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (owners_++ == 0 && guards()) mprotect(cpu_, mapped_, PROT_NONE);
}

void SharedMemory::take_from_gpu() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--owners_ == 0 && guards()) mprotect(cpu_, mapped_, PROT_READ | PROT_WRITE);
}

}  // namespace emulation
