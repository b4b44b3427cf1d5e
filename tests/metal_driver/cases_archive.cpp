// Pipelines that the Metal driver keeps on disk.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "check.h"

using namespace test;

namespace {

// A cache of the case's own.
struct Cache {
  std::string path;
  std::string before = std::getenv("MPSX_CACHE_DIR") ? std::getenv("MPSX_CACHE_DIR") : "";
  Cache() {
    char name[] = "/tmp/mpsx-cache.XXXXXX";
    CHECK(mkdtemp(name));
    path = name;
    setenv("MPSX_CACHE_DIR", (path + "/deep/down").c_str(), 1);
  }
  ~Cache() {
    for (const auto& file : files()) unlink(file.c_str());
    for (const char* folder : {"/deep/down/metal", "/deep/down", "/deep", ""}) rmdir((path + folder).c_str());
    setenv("MPSX_CACHE_DIR", before.c_str(), 1);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    const std::string folder = path + "/deep/down/metal";
    DIR* open = opendir(folder.c_str());
    if (!open) return found;
    while (const dirent* entry = readdir(open))
      if (entry->d_name[0] != '.') found.push_back(folder + "/" + entry->d_name);
    closedir(open);
    return found;
  }
};

// How many pipelines are compiled by a driver that is asked for these kernels.
unsigned long compiled(const std::string& directory, std::initializer_list<const char*> kernels) {
  Device device(directory);
  const auto before = mpsx_emulation_pipelines();
  for (const char* name : kernels) device.kernel(name);
  Array<float> a(device, 4);
  const float one = 1;
  if (kernels.size()) device.launch("fill", {a.argument(), value(one)}, {4});
  device.wait();
  CHECK(kernels.size() == 0 || a[3] == 1);
  return mpsx_emulation_pipelines() - before;
}

}  // namespace

BARE_CASE(keeps_pipelines_on_disk) {
  const Cache cache;
  CHECK(compiled(directory, {}) == 0 && cache.files().empty());
  CHECK(compiled(directory, {"fill", "add"}) == 2 && cache.files().size() == 1);
  CHECK(compiled(directory, {"fill", "add"}) == 0);
  CHECK(compiled(directory, {"fill", "scale"}) == 1);
  CHECK(compiled(directory, {"fill", "add", "scale"}) == 0 && cache.files().size() == 1);
  // Other kernels have another file.
  CHECK(compiled(directory + "/sources", {"fill"}) == 1 && cache.files().size() == 2);
}

BARE_CASE(does_without_an_archive) {
  {
    const Cache cache;
    CHECK(compiled(directory, {"fill"}) == 1);
    std::ofstream(cache.files().at(0)) << "garbage";
    CHECK(compiled(directory, {"fill"}) == 1);  // begun again
    CHECK(compiled(directory, {"fill"}) == 0);
    mpsx_emulation_fail("archive", 0, 1);
    CHECK(compiled(directory, {"fill", "add"}) == 1);  // add, not into the archive
    CHECK(compiled(directory, {"fill", "add"}) == 1);
    mpsx_emulation_fail("archive_file", 0, 1);
    CHECK(compiled(directory, {"fill", "scale"}) == 1);
    mpsx_emulation_fail("archive_exception", 0, 1);
    CHECK(compiled(directory, {"fill", "scale"}) == 1);
    CHECK(compiled(directory, {"fill", "scale"}) == 1 && cache.files().size() == 1);
  }
  const Cache cache;
  setenv("MPSX_METAL_ARCHIVE", "0", 1);
  CHECK(compiled(directory, {"fill"}) == 1 && cache.files().empty());
  unsetenv("MPSX_METAL_ARCHIVE");
  setenv("MPSX_CACHE_DIR", "/proc/none", 1);
  CHECK(compiled(directory, {"fill"}) == 1);
}
