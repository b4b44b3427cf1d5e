// The host driver. It runs Metal kernels, translated to C++, on the CPU's cores inside `dispatch`. In wide mode, each
// threadgroup is one thread. SIMT kernels run all threads of each threadgroup (simt/).
#ifdef __APPLE__
#  include <mach/mach.h>
#endif
#if defined(__linux__) || defined(__APPLE__)
#  include <sys/mman.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "driver/driver.h"
#include "driver/host/fault_handler.h"
#include "driver/host/interrupt.h"
#include "driver/host/kernel_module.h"
#include "driver/host/simt/allocations.h"
#include "driver/host/simt/dispatch.h"

namespace mpsx::driver {

using Clock = std::chrono::steady_clock;

struct Stream {};
struct Event {
  Clock::time_point time;
  bool recorded = false;
};

namespace host {
namespace {

// With fewer elements than this, a second core does not pay off. This is also the value of at::internal::GRAIN_SIZE.
constexpr uint64_t kGrainElements = 32768;
constexpr size_t kAlignment = 64;  // size of a cache line and of a 512-bit vector

#ifdef __linux__
constexpr size_t kHugePage = size_t(2) << 20;

size_t mapped_size(size_t bytes) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// Maps memory that is aligned to huge pages, and asks the OS to use huge pages for it. This cuts the time of first
// accesses to a third. Releasing the memory returns all of it to the OS.
void* map_huge(size_t bytes) {
  const size_t size = mapped_size(bytes), whole = size + kHugePage;
  void* const mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  char* const p = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + kHugePage - 1) / kHugePage * kHugePage);
  if (p > begin) munmap(begin, size_t(p - begin));
  if (p + size < begin + whole) munmap(p + size, size_t(begin + whole - p) - size);
  (void)madvise(p, size, MADV_HUGEPAGE);
  return p;
}
#endif

class HostDriver final : public Driver {
 public:
  HostDriver(const std::string& directory, ParallelFor parallel_for, bool simt)
      : module_(find_library(directory, simt)), parallel_for_(parallel_for) {
    info_.name = simt ? "simt" : "host";
    info_.compiler = module_.compiler();
    info_.isa = module_.isa();
    info_.device = info_.isa + " CPU, " + std::to_string(std::thread::hardware_concurrency()) + " cores";
    info_.total_memory = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
    if (simt) {  // size and lay out work as on a GPU, to check the same launches
      simt_ = {simt::configured_seed(), true};
      traits_.exact_allocations = true;
      traits_.threadgroup_size = simt::configured_threads();
      if (const uint32_t cores = simt::configured_cores()) traits_.cores = cores;
      traits_.tensor_tier = true;
      traits_.large_tensor_tiles = simt::configured_large_tiles();
      info_.device += ", MPSX_SIMT_SEED=" + std::to_string(simt_.seed);
    } else {
      traits_.simd_width = 1;
      traits_.one_thread_groups = true;
      traits_.vector_bytes = 0;
      traits_.cores = std::max(1u, std::thread::hardware_concurrency());
    }
    traits_.memory = Memory::process;
    traits_.asynchronous = false;
  }

  const Info& info() const override { return info_; }
  const Traits& traits() const override { return traits_; }

  Buffer allocate(size_t bytes) override {
    if (simt_.strict) {
      void* p = simt::allocations().allocate(bytes);
      return checked(p, bytes);
    }
    void* p = nullptr;
#ifdef __linux__
    if (bytes >= kHugePage) return checked(map_huge(bytes), bytes);
#endif
    if (posix_memalign(&p, kAlignment, std::max<size_t>(bytes, 1)) != 0) p = nullptr;
    return checked(p, bytes);
  }
  void release(const Buffer& buffer) noexcept override {
    if (simt_.strict) return simt::allocations().release(buffer.contents, buffer.size);
#ifdef __linux__
    if (buffer.size >= kHugePage) return (void)munmap(buffer.contents, mapped_size(buffer.size));
#endif
    std::free(buffer.contents);
  }
  Buffer wrap(void* contents, size_t bytes) override {
    if (simt_.strict) simt::allocations().add(contents, bytes);
    return {contents, contents, bytes};
  }
  void discard(void* contents, size_t bytes) noexcept override {
#ifdef __linux__
    (void)madvise(contents, bytes, MADV_DONTNEED);
#elif defined(__APPLE__)
    (void)madvise(contents, bytes, MADV_FREE);
#endif
  }
  size_t free_memory() const override {
#ifdef __APPLE__
    vm_statistics64_data_t found{};
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&found), &count))
      return info_.total_memory;
    return (size_t(found.free_count) + found.inactive_count) * size_t(sysconf(_SC_PAGESIZE));
#else
    return size_t(sysconf(_SC_AVPHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
#endif
  }

  const Kernel* kernel(std::string_view key) override { return module_.kernel(key); }
  std::vector<std::string> kernel_names() const override { return module_.kernel_names(); }
  std::unique_ptr<Library> load_library(const LibrarySource& source) override {
    return std::make_unique<KernelModule>(source.path, true);
  }

  Stream* default_stream() override { return &stream_; }
  Stream* new_stream() override { return &stream_; }  // work is complete when dispatch returns, so one stream is enough
  void commit(Stream*) override {}
  void synchronize(Stream*) override {}
  bool idle(Stream*) override { return true; }
  uint64_t dispatch(Stream*, const Kernel& kernel, const Argument* arguments, size_t count,
                    const Dispatch& dispatch) override {
    run(kernel, arguments, count, dispatch);
    return 0;
  }

  Event* new_event() override { return new Event; }
  void destroy(Event* event) noexcept override { delete event; }
  void record(Event* event, Stream*) override {
    event->time = Clock::now();
    event->recorded = true;
  }
  void wait(Event*, Stream*) override {}
  bool query(Event*) override { return true; }
  void synchronize(Event*) override {}
  double elapsed_ms(Event* from, Event* to) override {
    if (!from->recorded || !to->recorded) throw Error("elapsed_time: expected both events to be recorded");
    return std::chrono::duration<double, std::milli>(to->time - from->time).count();
  }

 private:
  static Buffer checked(void* p, size_t bytes) {
    if (!p) throw OutOfMemory("the operating system cannot allocate " + std::to_string(bytes) + " bytes");
    return {p, p, bytes};
  }
  void run(const Kernel&, const Argument*, size_t, const Dispatch&);

  Info info_;
  Traits traits_;
  KernelModule module_;
  ParallelFor parallel_for_;
  simt::Options simt_;
  Stream stream_;
};

// Returns memory for [[threadgroup(n)]] arguments. Each CPU thread keeps its memory between launches.
void* threadgroup_scratch(size_t bytes) {
  static thread_local std::vector<std::max_align_t> scratch;
  const size_t units = (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t);
  if (scratch.size() < units) scratch.resize(units);
  return scratch.data();
}

void HostDriver::run(const Kernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch) {
  const HostKernel& host_kernel = static_cast<const HostKernel&>(kernel);
  const mpsx_kernel_record& record = *host_kernel.record;
  const void* const* constants = host_kernel.constants ? host_kernel.constants->addresses() : nullptr;
  void* args[MPSX_MAX_ARGUMENTS] = {};
  size_t buffers = 0, locals = 0, offsets[MPSX_MAX_ARGUMENTS - MPSX_MAX_BUFFERS], scratch = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::threadgroup) {
      offsets[locals++] = scratch;
      scratch += (a.size + kAlignment - 1) / kAlignment * kAlignment;
    } else {
      if (buffers == MPSX_MAX_BUFFERS) throw Error(kernel.name + ": expected at most 31 buffers");
      const size_t offset = a.kind == Argument::Kind::buffer ? a.size : 0;
      args[buffers++] = const_cast<char*>(static_cast<const char*>(a.data) + offset);
    }
  }
  if (buffers < record.buffers)
    throw Error(kernel.name + ": expected " + std::to_string(record.buffers) + " buffers, got " +
                std::to_string(buffers));

  if (dispatch.grid.count() == 0) return;
  if (record.unit == MPSX_UNIT_SIMT) {
    simt::Options options = simt_;
    options.interruptible = host_kernel.is_user_kernel;
    return simt::dispatch(record, args, constants, arguments, count, dispatch, options, parallel_for_);
  }
  const Size& g = dispatch.grid;
  const Size group = dispatch.by_threads ? Size{} : dispatch.group;
  mpsx_launch launch{
      {g.x * group.x, g.y * group.y, g.z * group.z}, {g.x, g.y, g.z}, {group.x, group.y, group.z}, constants};
  const uint64_t total = record.unit == MPSX_UNIT_THREADS
                             ? uint64_t(launch.threads[0]) * launch.threads[1] * launch.threads[2]
                             : g.count();
  const uint64_t grain = std::max<uint64_t>(1, kGrainElements / std::max<uint64_t>(1, dispatch.work));
  const unsigned before = interrupt_count();
  const auto enter = [&](void* const* given, uint64_t begin, uint64_t end) {
    const auto kernel_itself = [&] { record.entry(given, &launch, begin, end); };
    run_guarded(kernel.name.c_str(), host_kernel.is_user_kernel ? &before : nullptr, std::cref(kernel_itself));
  };
  if (locals == 0 && total <= grain) return enter(args, 0, total);
  const auto body = [&](uint64_t begin, uint64_t end) {
    if (locals == 0) return enter(args, begin, end);
    void* own[MPSX_MAX_ARGUMENTS];
    std::copy(args, args + MPSX_MAX_ARGUMENTS, own);
    char* memory = static_cast<char*>(threadgroup_scratch(scratch));
    for (size_t i = 0; i < locals; ++i) own[MPSX_MAX_BUFFERS + i] = memory + offsets[i];
    enter(own, begin, end);
  };
  if (total <= grain) return body(0, total);
  parallel_for_(total, grain, body);
}

}  // namespace
}  // namespace host

std::unique_ptr<Driver> make_host_driver(const std::string& library_directory, ParallelFor parallel_for) {
  return std::make_unique<host::HostDriver>(library_directory, parallel_for, false);
}
std::unique_ptr<Driver> make_simt_driver(const std::string& library_directory, ParallelFor parallel_for) {
  return std::make_unique<host::HostDriver>(library_directory, parallel_for, true);
}

#ifndef __APPLE__
// This is exported, so that a preloaded library can replace it (tools/build/emulated_metal.py).
__attribute__((visibility("default"))) std::unique_ptr<Driver> make_metal_driver(const std::string&) { return nullptr; }
#endif

}  // namespace mpsx::driver
