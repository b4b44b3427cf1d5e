// The interface between mpsx and the GPU or CPU that runs its kernels.
//
// A driver handles bytes, kernels and streams. It does not depend on PyTorch or on operators. Execution may be
// asynchronous: `dispatch` may return before the kernel has run, `commit` submits batched work, and `synchronize` waits
// and throws device errors. A driver may also run kernels synchronously inside `dispatch`, like the host driver.
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

// Memory that both the CPU and the GPU can address (shared storage). `handle` is a driver object, for example an
// MTLBuffer.
struct Buffer {
  void* handle = nullptr;
  void* contents = nullptr;
  size_t size = 0;
};

// How a kernel uses the memory of a buffer argument. A kernel may also read memory that it declares as written.
enum class Access : uint8_t { read, write };

// One kernel argument. Buffers and bytes share one sequence of indices. Threadgroup arguments have a separate sequence.
//
// `access`, `begin` and `end` tell drivers which memory of a buffer the kernel uses, so that they can overlap
// independent dispatches. The defaults are correct for every kernel. Apart from them, the ranges of one buffer that
// dispatches use at the same time are equal or disjoint, because the caller splits buffers into blocks.
struct Argument {
  enum class Kind : uint8_t { buffer, bytes, threadgroup };
  Kind kind;
  const void* data;  // buffer: the handle; bytes: the address; threadgroup: unused
  size_t size;       // buffer: the offset in bytes; bytes: the size (at most 4096); threadgroup: bytes to reserve
  Access access = Access::write;
  size_t begin = 0, end = SIZE_MAX;  // the bytes of the buffer that the kernel may access
};

// A compiled kernel. Drivers derive from this struct. Callers only read these fields.
struct Kernel {
  std::string name;
  uint32_t max_threads = 1024;  // maximum threads per threadgroup
  uint32_t simd_width = 32;     // threads per SIMD group
  uint32_t static_threadgroup_bytes = 0;
  virtual ~Kernel() = default;
};

// The launch grid, counted in threads if `by_threads` is true and in threadgroups otherwise. If it is counted in
// threads, the driver handles an incomplete last threadgroup.
struct Dispatch {
  Size grid;
  Size group;  // threads per threadgroup
  bool by_threads = true;
  uint64_t work = 1;  // approximate elements per grid unit; a hint for splitting work between CPU cores
  // Whether the kernel also accesses memory through pointers stored in its arguments. Drivers do not overlap it with
  // other work.
  bool uses_other_memory = false;
};

struct Info {
  std::string name;         // "host", "metal", …
  std::string device;       // human-readable: "Apple M4 Max", "x86-64-v4, 2 cores"
  std::string compiler;     // the compiler that built the kernels
  std::string isa;          // "x86-64-v3", "apple9", …
  size_t total_memory = 0;  // in bytes
};

// How kernels address memory.
enum class Memory : uint8_t {
  buffers,  // driver objects (MTLBuffer); the runtime finds them by CPU address
  managed,  // CPU addresses within the driver's own allocations
  process,  // any CPU address in the process, including memory from malloc
};

// Hardware properties that determine the sizes of launches and allocations. Operators should call Launch::over()
// instead of reading vector_bytes.
struct Traits {
  uint32_t simd_width = 32;        // threads per SIMD group
  bool one_thread_groups = false;  // whether every threadgroup has one thread, regardless of the requested size
  uint32_t vector_bytes = 16;      // bytes per thread in a vectorized kernel; 0 means one element per thread
  uint32_t cores = 16;             // GPU cores or CPU threads; a guess if the OS does not report them
  Memory memory = Memory::buffers;
  bool asynchronous = true;        // whether `dispatch` may return before the kernel has completed
  bool exact_allocations = false;  // the driver checks exact bounds, so each block needs its own buffer
  uint32_t threadgroup_size = 0;   // for tests: size for kernels that accept any threadgroup size, or 0
  bool tensor_tier = false;         // whether it has kernels that use Metal 4's matmul2d
  bool large_tensor_tiles = false;  // tensor kernels have extra staging memory, so large tiles are fastest
  std::string gpu_family;           // the rows of runtime/tuning.def that apply: "apple9", "sm_90"; empty: none

  bool uses_process_memory() const { return memory == Memory::process; }
};

// Kernels compiled at run time, in addition to the driver's own kernels. Each driver uses the fields that it supports:
// host loads the compiled library at `path`, and metal compiles the Metal source in `text`. Error messages contain
// `name`.
struct LibrarySource {
  std::string name, path, text;
};

// A library that load_library() has loaded. It owns its kernels.
class Library {
 public:
  virtual ~Library() = default;
  virtual const Kernel* kernel(std::string_view key) const = 0;  // like Driver::kernel
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

  // `allocate` throws OutOfMemory. `wrap` creates a buffer over page-aligned memory that the driver does not own. On
  // failure, `wrap` returns a null handle.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void release(const Buffer&) noexcept = 0;
  // Allocates host-resident memory for a few bytes that the CPU polls and that kernels rarely write.
  virtual Buffer allocate_host_resident(size_t bytes) { return allocate(bytes); }
  virtual Buffer wrap(void* contents, size_t bytes) = 0;
  // Retains a buffer (MTLBuffer) that a different library has created on the same GPU.
  virtual Buffer share(void*) { throw Error("the " + info().name + " driver cannot share buffers of other libraries"); }
  virtual size_t free_memory() const = 0;
  // Copies within or between device and CPU memory. The caller must first wait for pending work on both sides. Unlike
  // direct CPU accesses, this does not migrate the pages of managed memory.
  virtual void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
  // Migrates memory that the CPU may have accessed back to the device, before later kernels use it.
  virtual void prefetch(const void*, size_t) noexcept {}
  // Tells the OS that it may reclaim pages of a buffer, because their contents are no longer needed.
  virtual void discard(void*, size_t) noexcept {}

  // Looks up a kernel by key: the host name, followed by the function constants in sorted order
  // ("layer_norm_f32|bias=1"). Returns null if there is no such kernel.
  virtual const Kernel* kernel(std::string_view key) = 0;
  virtual std::vector<std::string> kernel_names() const = 0;
  // Throws Error with the message of the compiler or loader.
  virtual std::unique_ptr<Library> load_library(const LibrarySource&) {
    throw Error("the " + info().name + " driver does not compile kernels at run time");
  }

  // A stream is an ordered queue of work. The default stream always exists.
  virtual Stream* default_stream() = 0;
  virtual Stream* new_stream() = 0;
  // Returns a sequence number for wait_until(), or 0 if the work is already complete. Sequence numbers increase
  // monotonically across all streams.
  virtual uint64_t dispatch(Stream*, const Kernel&, const Argument* arguments, size_t count, const Dispatch&) = 0;
  virtual void commit(Stream*) = 0;
  virtual void synchronize(Stream*) = 0;  // throws Error if any work has failed since the last call
  virtual bool idle(Stream*) = 0;
  // Waits for all work up to a sequence number and throws like synchronize(). wait_until_nothrow() does not throw but
  // leaves errors to a later call.
  virtual void wait_until(uint64_t) {}
  virtual void wait_until_nothrow(uint64_t) noexcept {}
  virtual bool is_complete(uint64_t) { return true; }

  // An event marks a position in a stream and records the device's clock at that point.
  virtual Event* new_event() = 0;
  virtual void destroy(Event*) noexcept = 0;
  virtual void record(Event*, Stream*) = 0;
  virtual void wait(Event*, Stream*) = 0;  // makes later work in the stream wait for the event
  virtual bool query(Event*) = 0;          // whether all work before the event has completed
  virtual void synchronize(Event*) = 0;
  virtual double elapsed_ms(Event* from, Event* to) = 0;

  // Labels name the calling thread's dispatches in profiling tools and in errors. They can be nested.
  virtual void begin_label(const std::string&) {}
  virtual void end_label() noexcept {}
  // Captures all GPU work for Xcode's debugger. Throws Error if capture is not available.
  virtual void start_capture(const std::string&) {
    throw Error("the " + info().name + " driver has no GPU to capture");
  }
  virtual void stop_capture() {}
};

// Splits [0, total) across CPU cores and calls `body(begin, end)` for each part, with at least `grain` units per
// thread. The caller provides PyTorch's implementation, so that the process does not need a second thread pool.
using ParallelFor = void (*)(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

std::unique_ptr<Driver> make_host_driver(const std::string& library_directory, ParallelFor);
// A CPU driver that runs every thread of a threadgroup. It checks kernels for races, out-of-bounds accesses and other
// errors.
std::unique_ptr<Driver> make_simt_driver(const std::string& library_directory, ParallelFor);
std::unique_ptr<Driver> make_metal_driver(const std::string& library_directory);  // null if Metal is not available
// Throws Error with the reason if there is no usable NVIDIA GPU.
std::unique_ptr<Driver> make_cuda_driver(const std::string& library_directory);
// Returns the reason why make_cuda_driver would fail, or an empty string if it would succeed.
std::string cuda_unavailable_reason();

}  // namespace mpsx::driver
