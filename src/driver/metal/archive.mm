#include "driver/metal/archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>

namespace mpsx::driver::metal {
namespace {

// Live archives. The process may end without destroying them.
struct Archives {
  std::mutex mutex;
  std::set<PipelineArchive*> all;
};
Archives& archives() {
  static Archives* a = new Archives;
  return *a;
}

void save_all() {
  if (is_forked()) return;
  std::lock_guard<std::mutex> lock(archives().mutex);
  for (PipelineArchive* archive : archives().all) archive->save();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// As for compiled shaders: python/mpsx/shader_cache.py.
std::string cache_directory() {
  if (const auto own = environment("MPSX_CACHE_DIR"); !own.empty()) return own;
  if (const auto all = environment("XDG_CACHE_HOME"); !all.empty()) return all + "/mpsx";
  const auto home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/mpsx";
}

bool make_directories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if (at == path.size() || path[at] == '/') mkdir(path.substr(0, at).c_str(), 0777);
  return access(path.c_str(), W_OK) == 0;
}

// A name for what a pipeline depends on: the kernels, the GPU, the compiler, which is macOS's.
std::string name_of(id<MTLDevice> device, const std::string& library) {
  struct stat file {};
  stat(library.c_str(), &file);
  const std::string text = library + '|' + std::to_string(file.st_size) + '|' + std::to_string(file.st_mtime) + '|' +
                           to_string(device.name) + '|' +
                           to_string(NSProcessInfo.processInfo.operatingSystemVersionString);
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char name[32];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

Owned<MTLComputePipelineDescriptor*> describe_pipeline(id<MTLFunction> function, id<MTLBinaryArchive> archive) {
  auto descriptor = Owned<MTLComputePipelineDescriptor*>::taking([[MTLComputePipelineDescriptor alloc] init]);
  descriptor.get().computeFunction = function;
  descriptor.get().binaryArchives = [NSArray arrayWithObject:archive];
  return descriptor;
}

}  // namespace

PipelineArchive::PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library) : device_(std::move(device)) {
  AutoreleasePool pool;
  const std::string directory = cache_directory();
  if (library.empty() || environment("MPSX_METAL_ARCHIVE") == "0" || directory.empty()) return;
  if (!make_directories(directory + "/metal")) return;
  path_ = directory + "/metal/" + name_of(device_.get(), library) + ".binarchive";
  open();
  std::lock_guard<std::mutex> lock(archives().mutex);
  static const int registered = std::atexit(save_all);
  if (registered == 0) archives().all.insert(this);
}

PipelineArchive::~PipelineArchive() {
  {
    std::lock_guard<std::mutex> lock(archives().mutex);
    archives().all.erase(this);
  }
  if (!is_forked()) save();
}

void PipelineArchive::open() {
  const auto descriptor = Owned<MTLBinaryArchiveDescriptor*>::taking([[MTLBinaryArchiveDescriptor alloc] init]);
  if (access(path_.c_str(), R_OK) == 0) descriptor.get().url = [NSURL fileURLWithPath:to_ns(path_)];
  NSError* error = nil;
  archive_ = Owned<id<MTLBinaryArchive>>::taking([device_.get() newBinaryArchiveWithDescriptor:descriptor.get()
                                                                                         error:&error]);
  if (archive_ || !descriptor.get().url) return;
  // Truncated, or of another macOS: start over.
  unlink(path_.c_str());
  descriptor.get().url = nil;
  archive_ = Owned<id<MTLBinaryArchive>>::taking([device_.get() newBinaryArchiveWithDescriptor:descriptor.get()
                                                                                         error:&error]);
}

Owned<id<MTLComputePipelineState>> PipelineArchive::make(id<MTLFunction> function,
                                                         MTLComputePipelineReflection** reflection,
                                                         std::string* reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  NSError* error = nil;
  if (archive_ && !reflection) {
    const auto descriptor = describe_pipeline(function, archive_.get());
    const auto from_archive = [&] {
      return Owned<id<MTLComputePipelineState>>::taking(
          [device_.get() newComputePipelineStateWithDescriptor:descriptor.get()
                                                       options:MTLPipelineOptionFailOnBinaryArchiveMiss
                                                    reflection:nullptr
                                                         error:&error]);
    };
    if (auto pipeline = from_archive()) return pipeline;
    if ([archive_.get() addComputePipelineFunctionsWithDescriptor:descriptor.get() error:&error]) {
      changed_ = true;
      if (auto pipeline = from_archive()) return pipeline;
    }
  }
  using Pipeline = Owned<id<MTLComputePipelineState>>;
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"  // MTLPipelineOptionBindingInfo is its newer name
  const MTLPipelineOption options = MTLPipelineOptionArgumentInfo;
#pragma clang diagnostic pop
  auto pipeline =
      reflection ? Pipeline::taking([device_.get() newComputePipelineStateWithFunction:function
                                                                              options:options
                                                                           reflection:reflection
                                                                                error:&error])
                 : Pipeline::taking([device_.get() newComputePipelineStateWithFunction:function error:&error]);
  if (!pipeline) *reason = describe(error);
  return pipeline;
}

void PipelineArchive::save() noexcept {
  try {
    write();
  } catch (...) {  // of C++ or of Objective-C
  }
}

void PipelineArchive::write() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!changed_) return;
  changed_ = false;
  // Readers see either the old file or the new one.
  const std::string fresh = path_ + "." + std::to_string(getpid());
  NSError* error = nil;
  if ([archive_.get() serializeToURL:[NSURL fileURLWithPath:to_ns(fresh)] error:&error])
    std::rename(fresh.c_str(), path_.c_str());
  else
    unlink(fresh.c_str());
}

}  // namespace mpsx::driver::metal
