// The Metal driver: driver.h on a Mac's GPU.
#include "driver/metal/capture.h"
#include "driver/metal/command_stream.h"
#include "driver/metal/event.h"

namespace mpsx::driver {
namespace metal {
namespace {

// Opaque to callers: streams and events are these.
Stream* as_stream(CommandStream* stream) { return reinterpret_cast<Stream*>(stream); }
CommandStream& of(Stream* stream) { return *reinterpret_cast<CommandStream*>(stream); }
Event* as_event(MetalEvent* event) { return reinterpret_cast<Event*>(event); }
MetalEvent& of(Event* event) { return *reinterpret_cast<MetalEvent*>(event); }

// Every entry that reaches Metal goes through this; those that may not throw, and what is freed in a forked process is
// left to the system.
template <typename F>
auto enter(F&& f) {
  check_not_forked();
  return translating_exceptions(f);
}
template <typename F>
void leave(F&& f) noexcept {
  if (is_forked()) return;
  try {
    f();
  } catch (...) {
  }
}

// Kernels compiled at run time from Metal source.
class ShaderLibrary final : public Library {
 public:
  ShaderLibrary(const Owned<id<MTLDevice>>& device, CommandStream& stream, const LibrarySource& source)
      : functions_(device, source.name, source.text), pipelines_(device, functions_, true), stream_(stream) {}
  ~ShaderLibrary() override {
    leave([&] { stream_.finish(); });  // work on its way names its kernels
  }

  const Kernel* kernel(std::string_view key) const override {
    return enter([&] { return pipelines_.get(key); });
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
        traits_(describe_traits()),
        memory_(device),
        functions_(device, directory),
        pipelines_(device, functions_),
        stream_(device) {
    note_start();
  }

  const Info& info() const override { return info_; }
  const Traits& traits() const override { return traits_; }

  Buffer allocate(size_t bytes) override {
    return enter([&] { return memory_.allocate(bytes); });
  }
  void release(const Buffer& buffer) noexcept override {
    leave([&] { memory_.release(buffer); });
  }
  Buffer wrap(void* contents, size_t bytes) override {
    return enter([&] { return memory_.wrap(contents, bytes); });
  }
  Buffer share(void* handle) override {
    return enter([&] { return memory_.share(handle); });
  }
  size_t free_memory() const override {
    return enter([&] { return memory_.free_bytes(); });
  }

  const Kernel* kernel(std::string_view key) override {
    return enter([&] { return pipelines_.get(key); });
  }
  std::vector<std::string> kernel_names() const override { return functions_.names(); }

  std::unique_ptr<Library> load_library(const LibrarySource& source) override {
    return enter([&] { return std::make_unique<ShaderLibrary>(device_, stream_, source); });
  }

  // One sequence serves as every stream: a GPU has no use for more, and freed memory may then be used again at once,
  // whatever stream its last user was on.
  Stream* default_stream() override { return as_stream(&stream_); }
  Stream* new_stream() override { return as_stream(&stream_); }
  uint64_t dispatch(Stream* stream, const Kernel& kernel, const Argument* arguments, size_t count,
                    const Dispatch& dispatch) override {
    return enter(
        [&] { return of(stream).dispatch(static_cast<const MetalKernel&>(kernel), arguments, count, dispatch); });
  }
  void commit(Stream* stream) override {
    enter([&] { of(stream).commit(); });
  }
  void synchronize(Stream* stream) override {
    enter([&] { of(stream).synchronize(); });
  }
  bool idle(Stream* stream) override {
    return enter([&] { return of(stream).idle(); });
  }
  void reach(uint64_t place) override {
    enter([&] { stream_.reach(place); });
  }
  void finish(uint64_t place) noexcept override {
    leave([&] { stream_.finish(place); });
  }
  bool reached(uint64_t place) override {
    return enter([&] { return stream_.reached(place); });
  }

  Event* new_event() override { return as_event(new MetalEvent); }
  void destroy(Event* event) noexcept override {
    leave([&] {
      AutoreleasePool pool;
      delete &of(event);
    });
  }
  void record(Event* event, Stream* stream) override {
    enter([&] { of(event).record(of(stream)); });
  }
  void wait(Event*, Stream*) override {}  // what was recorded comes before what will be dispatched
  bool done(Event* event) override {
    return enter([&] { return of(event).done(); });
  }
  void synchronize(Event* event) override {
    enter([&] { of(event).synchronize(); });
  }
  double elapsed_ms(Event* from, Event* to) override {
    return enter([&] { return MetalEvent::elapsed_ms(of(from), of(to)); });
  }

  void begin_label(const std::string& name) override { metal::begin_label(name); }
  void end_label() noexcept override { metal::end_label(); }
  void start_capture(const std::string& path) override {
    enter([&] {
      stream_.commit();  // what came before is no part of it
      metal::start_capture(device_.get(), path);
    });
  }
  void stop_capture() override {
    enter([&] {
      stream_.finish();
      metal::stop_capture();
    });
  }

 private:
  const Owned<id<MTLDevice>> device_;
  const Info info_;
  const Traits traits_;
  Memory memory_;
  FunctionLibrary functions_;
  Pipelines pipelines_;
  CommandStream stream_;  // last: it waits for work that uses the others
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
