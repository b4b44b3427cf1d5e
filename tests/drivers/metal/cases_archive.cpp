// The Metal driver's disk cache for pipelines.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "check.h"

using namespace test;

namespace {

// A temporary cache folder.
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
    std::sort(found.begin(), found.end());  // archives before temporary files, which start with "tmp"
    return found;
  }
};

// Returns how many pipelines a new driver compiles to get these kernels.
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

BARE_CASE(stores_pipelines_on_disk) {
  const Cache cache;
  CHECK(compiled(directory, {}) == 0 && cache.files().empty());
  CHECK(compiled(directory, {"fill", "add"}) == 2 && cache.files().size() == 1);
  CHECK(compiled(directory, {"fill", "add"}) == 0);
  CHECK(compiled(directory, {"fill", "scale"}) == 1);
  CHECK(compiled(directory, {"fill", "add", "scale"}) == 0 && cache.files().size() == 1);
  // Each kernel library uses its own file.
  CHECK(compiled(directory + "/sources", {"fill"}) == 1 && cache.files().size() == 2);
}

BARE_CASE(rebuilds_a_damaged_archive) {
  const Cache cache;
  CHECK(compiled(directory, {"fill", "add"}) == 2);
  std::ifstream whole(cache.files().at(0), std::ios::binary);
  const std::string data((std::istreambuf_iterator<char>(whole)), {});
  // Truncate the file, append bytes, replace it with garbage, or empty it. In each case, also leave a temporary file
  // behind.
  for (const std::string& damaged :
       {data.substr(0, data.rfind('\n')), data + "\nmore", std::string(99, 'x'), std::string()}) {
    std::ofstream(cache.files().at(0), std::ios::binary) << damaged;
    std::ofstream(cache.files().at(0).substr(0, cache.files().at(0).rfind('/')) + "/tmp-left") << data;
    CHECK(compiled(directory, {"fill", "add"}) == 2);
    CHECK(compiled(directory, {"fill", "add"}) == 0 && cache.files().size() == 2);
  }
  // Replace the archive with that of a different kernel library.
  CHECK(compiled(directory + "/sources", {"fill"}) == 1);
  std::vector<std::string> files = cache.files();
  std::erase_if(files, [](const std::string& file) { return file.find("tmp-") != file.npos; });
  CHECK(files.size() == 2 && std::rename(files[0].c_str(), (files[0] + ".x").c_str()) == 0 &&
        std::rename(files[1].c_str(), files[0].c_str()) == 0 &&
        std::rename((files[0] + ".x").c_str(), files[1].c_str()) == 0);
  CHECK(compiled(directory, {"fill", "add"}) == 2 && compiled(directory, {"fill", "add"}) == 0);
}

BARE_CASE(ignores_a_cache_that_others_can_write) {
  const Cache cache;
  CHECK(compiled(directory, {"fill"}) == 1 && cache.files().size() == 1);
  struct stat facts {};
  CHECK(stat((cache.path + "/deep/down/metal").c_str(), &facts) == 0 && (facts.st_mode & 0777) == 0700);
  chmod((cache.path + "/deep/down/metal").c_str(), 0777);
  CHECK(compiled(directory, {"fill"}) == 1 && compiled(directory, {"fill"}) == 1);
  chmod((cache.path + "/deep/down/metal").c_str(), 0700);
  CHECK(compiled(directory, {"fill"}) == 0);
}

BARE_CASE(works_without_an_archive) {
  {
    const Cache cache;
    CHECK(compiled(directory, {"fill"}) == 1);
    std::ofstream(cache.files().at(0)) << "garbage";
    CHECK(compiled(directory, {"fill"}) == 1);  // the driver replaces the damaged file
    CHECK(compiled(directory, {"fill"}) == 0);
    mpsx_emulation_fail("archive", 0, 1);
    CHECK(compiled(directory, {"fill", "add"}) == 1);  // add is compiled again: the archive could not be written
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
