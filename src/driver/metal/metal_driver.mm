// The Metal driver: implements driver.h on an Apple GPU.
#include <algorithm>
#include <iterator>

#include "driver/metal/capture.h"
#include "driver/metal/command_stream.h"
#include "driver/metal/event.h"

namespace mpsx::driver {
namespace metal {
namespace {

// Convert between the opaque types for streams and events and their implementations.
Stream* as_stream(CommandStream* stream) { return reinterpret_cast<Stream*>(stream); }
CommandStream& of(Stream* stream) { return *reinterpret_cast<CommandStream*>(stream); }
Event* as_event(MetalEvent* event) { return reinterpret_cast<Event*>(event); }
MetalEvent& of(Event* event) { return *reinterpret_cast<MetalEvent*>(event); }

// Every call into Metal must use guarded() or guarded_nothrow(). In a forked process, guarded() throws, and
// guarded_nothrow() does nothing and leaves the memory to the OS.
template <typename F>
auto guarded(F&& f) {
  check_not_forked();
  return translating_exceptions(f);
}
template <typename F>
void guarded_nothrow(F&& f) noexcept {
  if (is_forked()) return;
  try {
    f();
  } catch (...) {
  }
}

// Kernels that are compiled at run time from Metal source.
class ShaderLibrary final : public Library {
 public:
  ShaderLibrary(const Owned<id<MTLDevice>>& device, CommandStream& stream, const LibrarySource& source)
      : functions_(device, source.name, source.text), pipelines_(device, functions_, true), stream_(stream) {}
  ~ShaderLibrary() override {
    guarded_nothrow([&] { stream_.wait_all_nothrow(); });  // work in flight may use the kernels
  }

  const Kernel* kernel(std::string_view key) const override {
    return guarded([&] { return pipelines_.get(key); });
  }
  std::vector<std::string> kernel_names() const override { return functions_.names(); }

 private:
  FunctionLibrary functions_;
  mutable Pipelines pipelines_;
  CommandStream& stream_;
};

class MetalDriver final : public Driver {
 public:
  MetalDriver(const Owned<id<MTLDevice>>& device, const std::string& directory)
      : device_(device),
        info_(describe_device(device.get())),
        traits_(describe_traits(device.get())),
        memory_(device),
        functions_(device, directory),
        pipelines_(device, functions_),
        stream_(device) {
    install_fork_handler();
    if (!traits_.tensor_tier) return;
    tensor_functions_ = std::make_unique<FunctionLibrary>(device, directory, true);
    tensor_pipelines_ = std::make_unique<Pipelines>(device, *tensor_functions_);
  }

  const Info& info() const override { return info_; }
  const Traits& traits() const override { return traits_; }

  Buffer allocate(size_t bytes) override {
    return guarded([&] { return added(memory_.allocate(bytes)); });
  }
  void release(const Buffer& buffer) noexcept override {
    guarded_nothrow([&] { stream_.release(Owned<id<MTLBuffer>>::adopt(as_buffer(buffer.handle))); });
  }
  Buffer wrap(void* contents, size_t bytes) override {
    return guarded([&] { return added(memory_.wrap(contents, bytes)); });
  }
  Buffer share(void* handle) override {
    return guarded([&] { return added(memory_.share(handle)); });
  }
  size_t free_memory() const override {
    return guarded([&] { return memory_.free_bytes(); });
  }

  const Kernel* kernel(std::string_view key) override {
    return guarded([&]() -> const Kernel* {
      const Kernel* found = pipelines_.get(key);
      return found || !tensor_pipelines_ ? found : tensor_pipelines_->get(key);
    });
  }
  std::vector<std::string> kernel_names() const override {
    std::vector<std::string> names = functions_.names(), all;
    if (!tensor_functions_) return names;
    const std::vector<std::string> tensor_names = tensor_functions_->names();
    std::set_union(names.begin(), names.end(), tensor_names.begin(), tensor_names.end(), std::back_inserter(all));
    return all;
  }

  std::unique_ptr<Library> load_library(const LibrarySource& source) override {
    return guarded([&] { return std::make_unique<ShaderLibrary>(device_, stream_, source); });
  }

  // All streams share one queue. More queues would not make a GPU faster. With a single queue, freed memory can be
  // reused immediately, regardless of which stream used it last.
  Stream* default_stream() override { return as_stream(&stream_); }
  Stream* new_stream() override { return as_stream(&stream_); }
  uint64_t dispatch(Stream* stream, const Kernel& kernel, const Argument* arguments, size_t count,
                    const Dispatch& dispatch) override {
    return guarded(
        [&] { return of(stream).dispatch(static_cast<const MetalKernel&>(kernel), arguments, count, dispatch); });
  }
  void commit(Stream* stream) override {
    guarded([&] { of(stream).commit(); });
  }
  void synchronize(Stream* stream) override {
    guarded([&] { of(stream).synchronize(); });
  }
  bool idle(Stream* stream) override {
    return guarded([&] { return of(stream).idle(); });
  }
  void wait_until(uint64_t seq) override {
    guarded([&] { stream_.wait_until(seq); });
  }
  void wait_until_nothrow(uint64_t seq) noexcept override {
    guarded_nothrow([&] { stream_.wait_until_nothrow(seq); });
  }
  bool is_complete(uint64_t seq) override {
    return guarded([&] { return stream_.is_complete(seq); });
  }

  Event* new_event() override { return as_event(new MetalEvent); }
  void destroy(Event* event) noexcept override {
    guarded_nothrow([&] {
      AutoreleasePool pool;
      delete &of(event);
    });
  }
  void record(Event* event, Stream* stream) override {
    guarded([&] { of(event).record(of(stream)); });
  }
  void wait(Event*, Stream*) override {}  // recorded work already comes before later dispatches
  bool query(Event* event) override {
    return guarded([&] { return of(event).query(); });
  }
  void synchronize(Event* event) override {
    guarded([&] { of(event).synchronize(); });
  }
  double elapsed_ms(Event* from, Event* to) override {
    return guarded([&] { return MetalEvent::elapsed_ms(of(from), of(to)); });
  }

  void begin_label(const std::string& name) override { metal::begin_label(name); }
  void end_label() noexcept override { metal::end_label(); }
  void start_capture(const std::string& path) override {
    guarded([&] {
      stream_.commit();  // do not capture earlier work
      metal::start_capture(device_.get(), path);
    });
  }
  void stop_capture() override {
    guarded([&] {
      stream_.wait_all_nothrow();
      metal::stop_capture();
    });
  }

 private:
  Buffer added(const Buffer& buffer) {
    if (buffer.handle) stream_.add(as_buffer(buffer.handle));
    return buffer;
  }

  const Owned<id<MTLDevice>> device_;
  const Info info_;
  const Traits traits_;
  Memory memory_;
  FunctionLibrary functions_;
  Pipelines pipelines_;
  std::unique_ptr<FunctionLibrary> tensor_functions_;  // null if the device has no tensor tier
  std::unique_ptr<Pipelines> tensor_pipelines_;
  CommandStream stream_;  // destroyed first, because it waits for work that uses the other members
};

}  // namespace
}  // namespace metal

__attribute__((visibility("default"))) std::unique_ptr<Driver> make_metal_driver(const std::string& library_directory) {
  return metal::translating_exceptions([&]() -> std::unique_ptr<Driver> {
    metal::AutoreleasePool pool;
    const auto device = metal::find_device();
    if (!device) return nullptr;
    return std::make_unique<metal::MetalDriver>(device, library_directory);
  });
}

}  // namespace mpsx::driver
