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

// Kernels compiled at run time from Metal source.
class ShaderLibrary final : public Library {
 public:
  ShaderLibrary(const Owned<id<MTLDevice>>& device, CommandStream& stream, const LibrarySource& source)
      : functions_(device, source.name, source.text), pipelines_(device, functions_), stream_(stream) {}
  ~ShaderLibrary() override {
    if (!is_forked()) stream_.finish();  // work on its way names its kernels
  }

  const Kernel* kernel(std::string_view key) const override { return pipelines_.get(key); }
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
        memory_(device),
        functions_(device, directory),
        pipelines_(device, functions_),
        stream_(device) {
    note_start();
  }

  const Info& info() const override { return info_; }

  Buffer allocate(size_t bytes) override {
    check_not_forked();
    return memory_.allocate(bytes);
  }
  void release(const Buffer& buffer) noexcept override {
    if (!is_forked()) memory_.release(buffer);
  }
  Buffer wrap(void* contents, size_t bytes) override {
    check_not_forked();
    return memory_.wrap(contents, bytes);
  }
  Buffer share(void* handle) override {
    check_not_forked();
    return memory_.share(handle);
  }
  size_t free_memory() const override {
    check_not_forked();
    return memory_.free_bytes();
  }

  const Kernel* kernel(std::string_view key) override {
    check_not_forked();
    return pipelines_.get(key);
  }
  std::vector<std::string> kernel_names() const override { return functions_.names(); }

  std::unique_ptr<Library> load_library(const LibrarySource& source) override {
    check_not_forked();
    return std::make_unique<ShaderLibrary>(device_, stream_, source);
  }

  // One sequence serves as every stream: a GPU has no use for more, and freed memory may then be used again at once,
  // whatever stream its last user was on.
  Stream* default_stream() override { return as_stream(&stream_); }
  Stream* new_stream() override { return as_stream(&stream_); }
  uint64_t dispatch(Stream* stream, const Kernel& kernel, const Argument* arguments, size_t count,
                    const Dispatch& dispatch) override {
    check_not_forked();
    return of(stream).dispatch(static_cast<const MetalKernel&>(kernel), arguments, count, dispatch);
  }
  void commit(Stream* stream) override {
    check_not_forked();
    of(stream).commit();
  }
  void synchronize(Stream* stream) override {
    check_not_forked();
    of(stream).synchronize();
  }
  bool idle(Stream* stream) override {
    check_not_forked();
    return of(stream).idle();
  }
  void reach(uint64_t place) override {
    check_not_forked();
    stream_.reach(place);
  }
  void finish(uint64_t place) noexcept override {
    if (!is_forked()) stream_.finish(place);
  }
  bool reached(uint64_t place) override {
    check_not_forked();
    return stream_.reached(place);
  }

  Event* new_event() override { return as_event(new MetalEvent); }
  void destroy(Event* event) noexcept override {
    AutoreleasePool pool;
    delete &of(event);
  }
  void record(Event* event, Stream* stream) override {
    check_not_forked();
    of(event).record(of(stream));
  }
  void wait(Event*, Stream*) override {}  // what was recorded comes before what will be dispatched
  bool done(Event* event) override { return of(event).done(); }
  void synchronize(Event* event) override { of(event).synchronize(); }
  double elapsed_ms(Event* from, Event* to) override { return MetalEvent::elapsed_ms(of(from), of(to)); }

  void begin_label(const std::string& name) override { metal::begin_label(name); }
  void end_label() noexcept override { metal::end_label(); }
  void start_capture(const std::string& path) override {
    check_not_forked();
    stream_.commit();  // what came before is no part of it
    metal::start_capture(device_.get(), path);
  }
  void stop_capture() override {
    check_not_forked();
    stream_.finish();
    metal::stop_capture();
  }

 private:
  const Owned<id<MTLDevice>> device_;
  const Info info_;
  Memory memory_;
  FunctionLibrary functions_;
  Pipelines pipelines_;
  CommandStream stream_;  // last: it waits for work that uses the others
};

}  // namespace
}  // namespace metal

__attribute__((visibility("default"))) std::unique_ptr<Driver> make_metal_driver(const std::string& library_directory) {
  const auto device = metal::find_device();
  if (!device) return nullptr;
  return std::make_unique<metal::MetalDriver>(device, library_directory);
}

}  // namespace mpsx::driver
