// The whole contract between mpsx and a GPU, or a stand-in for one.
//
// A driver knows bytes, kernels and streams, but neither torch nor operators. Execution is asynchronous by contract:
// `dispatch` may return before the kernel has run, `commit` submits batched work, `synchronize` waits and throws errors
// of the device. A driver may also run kernels inside `dispatch` (host).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mpsx::driver {

struct Size {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

// Memory that both CPU and GPU address (shared storage). `handle` is the driver's own object (an MTLBuffer).
struct Buffer {
  void* handle = nullptr;
  void* contents = nullptr;
  size_t size = 0;
};

// One kernel argument; its place in the array is its buffer index (threadgroup arguments count separately).
struct Argument {
  enum class Kind : uint8_t { buffer, bytes, threadgroup };
  Kind kind;
  const void* data;  // buffer: the handle; bytes: the address; threadgroup: unused
  size_t size;       // buffer: the offset in bytes; bytes: their number (at most 4096); threadgroup: bytes to reserve
};

// A compiled kernel. Drivers derive from it; callers read only these facts.
struct Kernel {
  std::string name;
  uint32_t max_threads = 1024;  // per threadgroup
  uint32_t simd_width = 32;     // threads per SIMD group
  uint32_t static_threadgroup_bytes = 0;
  virtual ~Kernel() = default;
};

// A launch: a grid in threads (`by_threads`, the driver guards the tail) or in threadgroups.
struct Dispatch {
  Size grid;
  Size group;  // threads per threadgroup
  bool by_threads = true;
  uint64_t work = 1;  // about how many elements one grid unit touches; a hint for splitting between CPU cores
};

struct Info {
  std::string name;         // "host", "metal", …
  std::string device;       // what a person calls it: "Apple M4 Max", "x86-64-v4, 2 cores"
  std::string compiler;     // what compiled the kernels
  std::string isa;          // "x86-64-v3", "apple9", …
  size_t total_memory = 0;  // bytes
};

// The memory that kernels can access.
enum class Memory : uint8_t {
  buffers,  // objects of the driver (MTLBuffer), found by looking up the CPU address
  managed,  // the driver's own allocations, by CPU address
  process,  // any memory of the process, malloc's and other libraries' too, by CPU address
};

// Facts by which the runtime lays out work and memory. Launchers need not ask: see Launch::over().
struct Traits {
  uint32_t simd_width = 32;        // threads of a SIMD group
  bool one_thread_groups = false;  // every threadgroup is a single thread, whatever size is asked for
  uint32_t dense_bytes = 16;       // bytes that a thread of a dense kernel handles; 0: one element
  uint32_t cores = 16;             // GPU cores or CPU threads to fill; a guess where the system does not say
  Memory memory = Memory::buffers;
  bool asynchronous = true;  // the CPU has to wait before it reads; false: `dispatch` returns when the work is done
  bool exact_allocations = false;  // accesses are checked to the byte, so blocks are not carved out of larger ones
  uint32_t group_threads = 0;      // not 0: the size of every threadgroup that is free to have any (set by tests)

  bool adopts_memory() const { return memory == Memory::process; }
};

// Kernels beside the driver's own, compiled at run time. A driver takes what it can run: `path`, a kernel library
// compiled from a translation (host), or `text`, the Metal source itself (metal). `name` stands in messages.
struct LibrarySource {
  std::string name, path, text;
};

// The result of load_library; the kernels live as long as it does.
class Library {
 public:
  virtual ~Library() = default;
  virtual const Kernel* kernel(std::string_view key) const = 0;  // as Driver::kernel
  virtual std::vector<std::string> kernel_names() const = 0;     // sorted
};

struct Stream;  // opaque, owned by the driver
struct Event;

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class OutOfMemory : public Error {
  using Error::Error;
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual const Info& info() const = 0;
  virtual const Traits& traits() const = 0;

  // Memory. `allocate` throws OutOfMemory. `wrap` takes page-aligned memory of somebody else's; null: not
  // possible.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void release(const Buffer&) noexcept = 0;
  // For a few bytes that the CPU reads again and again and kernels seldom write: they lie near the CPU.
  virtual Buffer allocate_near_cpu(size_t bytes) { return allocate(bytes); }
  virtual Buffer wrap(void* contents, size_t bytes) = 0;
  // Another library's buffer on the same GPU (an MTLBuffer); the result shares its ownership.
  virtual Buffer share(void*) { throw Error("the " + info().name + " driver knows no buffers but its own"); }
  virtual size_t free_memory() const = 0;
  // Copies between the device's memory and the CPU's, or within either, once the work on it is complete. Where the two
  // are apart, this leaves the device's memory where it is, and the CPU's own accesses move it.
  virtual void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
  // Kernels come next that use memory which the CPU may have moved to itself.
  virtual void prefetch(const void*, size_t) noexcept {}
  // The contents of a part of a buffer are not needed: its pages may go back to the system until they are next written.
  virtual void discard(void*, size_t) noexcept {}

  // Kernels, by key: the host name, then sorted function constants ("layer_norm_f32|bias=1"). Null: no such
  // kernel.
  virtual const Kernel* kernel(std::string_view key) = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // Throws Error with the compiler's or loader's words.
  virtual std::unique_ptr<Library> load_library(const LibrarySource&) {
    throw Error("the " + info().name + " driver does not compile kernels at run time");
  }

  // Streams: ordered queues of work. The default stream always exists.
  virtual Stream* default_stream() = 0;
  virtual Stream* new_stream() = 0;
  // Returns a place for reach(), 0 if the work is complete. Places increase monotonically over all streams.
  virtual uint64_t dispatch(Stream*, const Kernel&, const Argument* arguments, size_t count, const Dispatch&) = 0;
  virtual void commit(Stream*) = 0;
  virtual void synchronize(Stream*) = 0;  // throws Error for work that failed since the last call
  virtual bool idle(Stream*) = 0;
  // Waits until the work up to a place is complete, and throws as synchronize() does; finish() leaves errors pending.
  virtual void reach(uint64_t) {}
  virtual void finish(uint64_t) noexcept {}
  virtual bool reached(uint64_t) { return true; }

  // Events: marks in a stream, with the device's clock.
  virtual Event* new_event() = 0;
  virtual void destroy(Event*) noexcept = 0;
  virtual void record(Event*, Stream*) = 0;
  virtual void wait(Event*, Stream*) = 0;  // later work of the stream waits for the event
  virtual bool done(Event*) = 0;
  virtual void synchronize(Event*) = 0;
  virtual double elapsed_ms(Event* from, Event* to) = 0;

  // For people: names what the calling thread dispatches in between, in the system's tools and in errors. Labels nest.
  // A capture records all work of the GPU for the system's debugger; throws Error if that is not available.
  virtual void begin_label(const std::string&) {}
  virtual void end_label() noexcept {}
  virtual void start_capture(const std::string&) {
    throw Error("the " + info().name + " driver has no GPU to capture");
  }
  virtual void stop_capture() {}
};

// Splits [0, total) between CPU cores and runs `body(begin, end)` on each part. Supplied by the owner of the thread
// pool, so that a process has only one (torch's). `grain`: the least number of units worth a thread.
using ParallelFor = void (*)(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

std::unique_ptr<Driver> make_host_driver(const std::string& library_directory, ParallelFor);
// The host driver with real threadgroups and SIMD groups, which checks what kernels do.
std::unique_ptr<Driver> make_simt_driver(const std::string& library_directory, ParallelFor);
std::unique_ptr<Driver> make_metal_driver(const std::string& library_directory);  // null where there is no Metal
// Throws Error with the reason where there is no NVIDIA GPU that can be used; cuda_trouble returns it, empty if there
// is.
std::unique_ptr<Driver> make_cuda_driver(const std::string& library_directory);
std::string cuda_trouble();

}  // namespace mpsx::driver
