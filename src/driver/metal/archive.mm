#include "driver/metal/archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "driver/cache_folder.h"
#include "driver/environment.h"

namespace mpsx::driver::metal {
namespace {

// All existing archives. An exit handler saves them, because the process may exit without destroying them.
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

constexpr const char* kSuffix = ".binarchive";

// Returns the suffix of the archive's file name, which contains a hash of the file at `path`.
std::string suffix_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(file)), {});
  return "." + to_hex(content_hash(data)) + kSuffix;
}

// Removes the file at the end of the scope, even if Metal throws an exception.
struct TemporaryFile {
  std::string path;
  ~TemporaryFile() { unlink(path.c_str()); }
};

// Returns the files of the archive and their modification times.
std::map<std::string, std::filesystem::file_time_type> files_of(const std::string& folder, const std::string& name) {
  std::map<std::string, std::filesystem::file_time_type> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().rfind(name + ".", 0) == 0)
      if (const auto when = entry.last_write_time(error); !error) found[entry.path().string()] = when;
  return found;
}

// Hashes everything that a pipeline depends on: the kernels, the GPU, and the version of macOS, which includes the
// compiler.
std::string name_of(id<MTLDevice> device, const std::string& library) {
  struct stat file {};
  stat(library.c_str(), &file);
  const std::string text = library + '|' + std::to_string(file.st_size) + '|' + std::to_string(file.st_mtime) + '|' +
                           to_string(device.name) + '|' +
                           to_string(NSProcessInfo.processInfo.operatingSystemVersionString);
  return to_hex(content_hash(text));
}

Owned<MTLComputePipelineDescriptor*> describe_pipeline(id<MTLFunction> function, id<MTLBinaryArchive> archive) {
  auto descriptor = Owned<MTLComputePipelineDescriptor*>::adopt([[MTLComputePipelineDescriptor alloc] init]);
  descriptor.get().computeFunction = function;
  descriptor.get().binaryArchives = [NSArray arrayWithObject:archive];
  return descriptor;
}

}  // namespace

PipelineArchive::PipelineArchive(Owned<id<MTLDevice>> device, const std::string& library) : device_(std::move(device)) {
  AutoreleasePool pool;
  if (library.empty() || env_string("MPSX_METAL_ARCHIVE") == "0") return;
  folder_ = cache_folder("metal");
  if (folder_.empty()) return;
  name_ = name_of(device_.get(), library);
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

// Returns the newest intact file. Deletes damaged files.
std::string PipelineArchive::find() const {
  std::string newest;
  std::filesystem::file_time_type last;
  for (const auto& [path, when] : files_of(folder_, name_))
    if (path != folder_ + "/" + name_ + suffix_of(path))
      unlink(path.c_str());
    else if (newest.empty() || when > last)
      newest = path, last = when;
  return newest;
}

void PipelineArchive::open() {
  const std::string path = find();
  const auto descriptor = Owned<MTLBinaryArchiveDescriptor*>::adopt([[MTLBinaryArchiveDescriptor alloc] init]);
  if (!path.empty()) descriptor.get().url = [NSURL fileURLWithPath:to_ns(path)];
  NSError* error = nil;
  archive_ = Owned<id<MTLBinaryArchive>>::adopt([device_.get() newBinaryArchiveWithDescriptor:descriptor.get()
                                                                                         error:&error]);
  if (archive_ || !descriptor.get().url) return;
  // A different macOS version has written this archive, so start over.
  unlink(path.c_str());
  descriptor.get().url = nil;
  archive_ = Owned<id<MTLBinaryArchive>>::adopt([device_.get() newBinaryArchiveWithDescriptor:descriptor.get()
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
      return Owned<id<MTLComputePipelineState>>::adopt(
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
#pragma clang diagnostic ignored "-Wdeprecated-declarations"  // renamed in newer SDKs
  const MTLPipelineOption options = MTLPipelineOptionArgumentInfo;
#pragma clang diagnostic pop
  auto pipeline =
      reflection ? Pipeline::adopt([device_.get() newComputePipelineStateWithFunction:function
                                                                              options:options
                                                                           reflection:reflection
                                                                                error:&error])
                 : Pipeline::adopt([device_.get() newComputePipelineStateWithFunction:function error:&error]);
  if (!pipeline) *reason = describe(error);
  return pipeline;
}

void PipelineArchive::save() noexcept {
  try {
    write();
  } catch (...) {  // both C++ and Objective-C exceptions
  }
}

void PipelineArchive::write() {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!changed_) return;
  changed_ = false;
  // Write to a temporary file and rename it, so that readers see either the old or the new file.
  const TemporaryFile fresh{temporary_file(folder_)};
  NSError* error = nil;
  if (fresh.path.empty()) return;
  unlink(fresh.path.c_str());  // Metal creates the file itself
  if (![archive_.get() serializeToURL:[NSURL fileURLWithPath:to_ns(fresh.path)] error:&error]) return;
  const std::string path = folder_ + "/" + name_ + suffix_of(fresh.path);
  if (std::rename(fresh.path.c_str(), path.c_str()) != 0) return;
  // If several processes have saved at the same time, keep the newest file.
  const auto files = files_of(folder_, name_);
  const auto mine = files.find(path);
  for (const auto& other : files)
    if (mine != files.end() && std::pair(other.second, other.first) < std::pair(mine->second, mine->first))
      unlink(other.first.c_str());
}

}  // namespace mpsx::driver::metal
