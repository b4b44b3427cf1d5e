// The CUDA driver: implements driver.h on an NVIDIA GPU.
#include "driver/cuda/command_stream.h"
#include "driver/cuda/event.h"
#include "driver/cuda/graph.h"
#include "driver/cuda/memory.h"
#include "driver/environment.h"

namespace mpsx::driver {
namespace cuda {
namespace {

// Returns whether each tensor has its own allocation in device memory, so that compute-sanitizer can check its bounds.
bool exact_buffers() { return env_flag("MPSX_CUDA_EXACT_BUFFERS"); }

Stream* as_stream(CommandStream* stream) { return reinterpret_cast<Stream*>(stream); }
Event* as_event(CudaEvent* event) { return reinterpret_cast<Event*>(event); }
CudaEvent& of(Event* event) { return *reinterpret_cast<CudaEvent*>(event); }

class CudaDriver final : public Driver, public GraphDriver {
 public:
  explicit CudaDriver(const std::string& directory)
      : stream_(device_), memory_(device_, stream_.get(), exact_buffers()), kernels_(device_, directory + "/mpsx.ptx") {
    info_.name = "cuda";
    info_.device = device_.name;
    info_.compiler = kernels_.compiler();
    info_.isa = device_.target();
    info_.total_memory = device_.total_memory;
    traits_.memory = Memory::managed;
    traits_.cores = uint32_t(device_.processors);
    traits_.threadgroup_size = uint32_t(env_number("MPSX_CUDA_THREADS", 1, 1024, 0));
    traits_.exact_allocations = exact_buffers();
    traits_.tensor_tier = true;
    traits_.large_tensor_tiles = true;
    traits_.gpu_family = device_.target() == "sm_90a" ? "sm_90" : "sm_80";  // with or without wgmma
  }

  const Info& info() const override { return info_; }
  const Traits& traits() const override { return traits_; }

  Buffer allocate(size_t bytes) override {
    device_.bind();
    return memory_.allocate(bytes);
  }
  void release(const Buffer& buffer) noexcept override {
    bind_nothrow();
    memory_.release(buffer);
  }
  Buffer allocate_host_resident(size_t bytes) override {
    device_.bind();
    return memory_.allocate_host_resident(bytes);
  }
  Buffer wrap(void*, size_t) override { return {}; }
  void copy(void* to, const void* from, size_t bytes) override {
    device_.bind();
    memory_.copy(to, from, bytes);
  }
  void prefetch(const void* address, size_t bytes) noexcept override {
    bind_nothrow();
    memory_.prefetch(address, bytes);
  }
  size_t free_memory() const override {
    device_.bind();
    return memory_.free_bytes();
  }

  const Kernel* kernel(std::string_view key) override { return kernels_.kernel(key); }
  std::vector<std::string> kernel_names() const override { return kernels_.kernel_names(); }
  std::unique_ptr<Library> load_library(const LibrarySource& source) override {
    return std::make_unique<Kernels>(device_, source.path);
  }

  Stream* default_stream() override { return as_stream(&stream_); }
  Stream* new_stream() override { return as_stream(&stream_); }
  uint64_t dispatch(Stream*, const Kernel& kernel, const Argument* arguments, size_t count,
                    const Dispatch& dispatch) override {
    return stream_.dispatch(static_cast<const CudaKernel&>(kernel), arguments, count, dispatch);
  }
  std::unique_ptr<Graph> new_graph(const RecordedDispatch* dispatches, size_t count) override {
    if (stream_.is_synchronous()) return nullptr;
    device_.bind();
    try {
      return std::make_unique<CudaGraph>(device_, stream_, dispatches, count);
    } catch (const Error&) {
      return nullptr;
    }
  }
  void commit(Stream*) override {}  // launches are submitted immediately
  void synchronize(Stream*) override { stream_.synchronize(); }
  bool idle(Stream*) override { return stream_.idle(); }
  void wait_until(uint64_t seq) override { stream_.wait_until(seq); }
  void wait_until_nothrow(uint64_t seq) noexcept override { stream_.wait_until_nothrow(seq); }
  bool is_complete(uint64_t seq) override { return stream_.is_complete(seq); }

  Event* new_event() override { return as_event(new CudaEvent(device_)); }
  void destroy(Event* event) noexcept override {
    bind_nothrow();
    delete &of(event);
  }
  void record(Event* event, Stream*) override { of(event).record(stream_.get()); }
  void wait(Event*, Stream*) override {}  // there is only one stream, and it runs in order
  bool query(Event* event) override { return of(event).query(); }
  void synchronize(Event* event) override { of(event).synchronize(); }
  double elapsed_ms(Event* from, Event* to) override { return CudaEvent::elapsed_ms(of(from), of(to)); }

 private:
  void bind_nothrow() noexcept {
    try {
      device_.bind();
    } catch (const Error&) {  // CUDA has already been shut down
    }
  }

  const Device device_;
  Info info_;
  Traits traits_;
  CommandStream stream_;
  ManagedMemory memory_;
  Kernels kernels_;
};

}  // namespace
}  // namespace cuda

#ifdef __APPLE__
std::string cuda_unavailable_reason() { return "not available on macOS"; }
std::unique_ptr<Driver> make_cuda_driver(const std::string&) {
  throw Error("MPSX_DRIVER=cuda: not available on macOS");
}
#else
std::string cuda_unavailable_reason() {
  try {
    const cuda::Device found(false);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

std::unique_ptr<Driver> make_cuda_driver(const std::string& library_directory) {
  try {
    return std::make_unique<cuda::CudaDriver>(library_directory);
  } catch (const Error& e) {
    throw Error(std::string("MPSX_DRIVER=cuda: ") + e.what());
  }
}
#endif

}  // namespace mpsx::driver
