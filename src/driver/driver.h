// The interface between mpsx and a GPU, or a CPU that runs its kernels.
//
// A driver handles bytes, kernels and streams; it knows neither torch nor operators. Execution may be asynchronous:
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

// One kernel argument. Its position among the arguments of its kind is its index; threadgroup arguments have their own
// index space.
struct Argument {
  enum class Kind : uint8_t { buffer, bytes, threadgroup };
  Kind kind;
  const void* data;  // buffer: the handle; bytes: the address; threadgroup: unused
  size_t size;       // buffer: the offset in bytes; bytes: the size (at most 4096); threadgroup: bytes to reserve
};

// A compiled kernel. Drivers derive from it; callers only read these fields.
struct Kernel {
  std::string name;
  uint32_t max_threads = 1024;  // per threadgroup
  uint32_t simd_width = 32;     // threads per SIMD group
  uint32_t static_threadgroup_bytes = 0;
  virtual ~Kernel() = default;
};

// The launch grid in threads (`by_threads`; the driver guards the tail) or in threadgroups.
struct Dispatch {
  Size grid;
  Size group;  // threads per threadgroup
  bool by_threads = true;
  uint64_t work = 1;  // approximate elements per grid unit, a hint for splitting between CPU cores
};

struct Info {
  std::string name;         // "host", "metal", …
  std::string device;       // human-readable: "Apple M4 Max", "x86-64-v4, 2 cores"
  std::string compiler;     // of the kernels
  std::string isa;          // "x86-64-v3", "apple9", …
  size_t total_memory = 0;  // bytes
};

// The memory that kernels can access.
enum class Memory : uint8_t {
  buffers,  // objects of the driver (MTLBuffer), found by looking up the CPU address
  managed,  // the driver's own allocations, by CPU address
  process,  // any memory of the process, including malloc's and other libraries', by CPU address
};

// Properties by which the runtime lays out work and memory. Launchers need not ask: see Launch::over().
struct Traits {
  uint32_t simd_width = 32;        // threads per SIMD group
  bool one_thread_groups = false;  // every threadgroup has one thread, whatever size is requested
  uint32_t vector_bytes = 16;      // bytes per thread of a vectorized kernel; 0: one element
  uint32_t cores = 16;             // GPU cores or CPU threads; a guess where the system does not report them
  Memory memory = Memory::buffers;
  bool asynchronous = true;        // the CPU has to wait before it reads; false: `dispatch` returns completed work
  bool exact_allocations = false;  // accesses are checked to the byte, so each block needs a buffer of its own
  uint32_t threadgroup_size = 0;   // for tests: the size of every threadgroup that may have any size; 0: not forced

  bool uses_process_memory() const { return memory == Memory::process; }
};

// Kernels compiled at run time, in addition to the driver's own. A driver uses the field that it can run: `path`, a
// kernel library compiled from a translation (host), or `text`, the Metal source (metal). `name` appears in messages.
struct LibrarySource {
  std::string name, path, text;
};

// The result of load_library, which owns the kernels.
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

  // Memory. `allocate` throws OutOfMemory. `wrap` makes a buffer of page-aligned memory that the driver does not own;
  // its handle is null if that is not possible.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void release(const Buffer&) noexcept = 0;
  // Host-resident memory, for a few bytes that the CPU polls and kernels rarely write.
  virtual Buffer allocate_host_resident(size_t bytes) { return allocate(bytes); }
  virtual Buffer wrap(void* contents, size_t bytes) = 0;
  // Retains another library's buffer on the same GPU (an MTLBuffer).
  virtual Buffer share(void*) { throw Error("the " + info().name + " driver cannot share buffers of other libraries"); }
  virtual size_t free_memory() const = 0;
  // Copies between device and CPU memory in any combination, once the work on both is complete. Managed memory stays on
  // the device, whereas direct accesses by the CPU would migrate its pages.
  virtual void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
  // Migrates memory that the CPU may have accessed back to the device, before the kernels that follow use it.
  virtual void prefetch(const void*, size_t) noexcept {}
  // Tells the system that the contents of a part of a buffer are not needed, so that it can reclaim the pages.
  virtual void discard(void*, size_t) noexcept {}

  // Kernels by key: the host name, then sorted function constants ("layer_norm_f32|bias=1"). Null if there is no such
  // kernel.
  virtual const Kernel* kernel(std::string_view key) = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // Throws Error with the message of the compiler or loader.
  virtual std::unique_ptr<Library> load_library(const LibrarySource&) {
    throw Error("the " + info().name + " driver does not compile kernels at run time");
  }

  // Streams: ordered queues of work. The default stream always exists.
  virtual Stream* default_stream() = 0;
  virtual Stream* new_stream() = 0;
  // Returns the sequence number of the work, for wait_until(), or 0 if the work is complete. Sequence numbers increase
  // monotonically over all streams.
  virtual uint64_t dispatch(Stream*, const Kernel&, const Argument* arguments, size_t count, const Dispatch&) = 0;
  virtual void commit(Stream*) = 0;
  virtual void synchronize(Stream*) = 0;  // throws Error for work that failed since the last call
  virtual bool idle(Stream*) = 0;
  // Waits for all work up to a sequence number and throws as synchronize() does; wait_until_nothrow() leaves errors
  // pending.
  virtual void wait_until(uint64_t) {}
  virtual void wait_until_nothrow(uint64_t) noexcept {}
  virtual bool is_complete(uint64_t) { return true; }

  // Events mark positions in a stream and record the device's clock there.
  virtual Event* new_event() = 0;
  virtual void destroy(Event*) noexcept = 0;
  virtual void record(Event*, Stream*) = 0;
  virtual void wait(Event*, Stream*) = 0;  // later work of the stream waits for the event
  virtual bool query(Event*) = 0;          // whether the work before the event is complete
  virtual void synchronize(Event*) = 0;
  virtual double elapsed_ms(Event* from, Event* to) = 0;

  // Labels name the calling thread's dispatches in the system's tools and in errors. They nest.
  virtual void begin_label(const std::string&) {}
  virtual void end_label() noexcept {}
  // Records all work of the GPU for the system's debugger. Throws Error if capture is not available.
  virtual void start_capture(const std::string&) {
    throw Error("the " + info().name + " driver has no GPU to capture");
  }
  virtual void stop_capture() {}
};

// Splits [0, total) between CPU cores and runs `body(begin, end)` on each part. The owner of the thread pool supplies
// it, so that the process has only one pool (torch's). `grain`: the minimum number of units per thread.
using ParallelFor = void (*)(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

std::unique_ptr<Driver> make_host_driver(const std::string& library_directory, ParallelFor);
// The host driver with real threadgroups and SIMD groups, which checks what kernels do.
std::unique_ptr<Driver> make_simt_driver(const std::string& library_directory, ParallelFor);
std::unique_ptr<Driver> make_metal_driver(const std::string& library_directory);  // null where there is no Metal
// Throws Error with the reason if no NVIDIA GPU can be used.
std::unique_ptr<Driver> make_cuda_driver(const std::string& library_directory);
// The reason why make_cuda_driver would fail; empty if it would not.
std::string cuda_unavailable_reason();

}  // namespace mpsx::driver
