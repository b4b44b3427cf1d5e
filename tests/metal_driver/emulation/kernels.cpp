#include "kernels.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace emulation {

std::shared_ptr<KernelImage> KernelImage::open(const std::string& path, std::string* reason) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* table =
      library ? static_cast<const mpsx_kernel_table_t*>(dlsym(library, "mpsx_kernel_table")) : nullptr;
  if (!table || table->abi_version != MPSX_KERNEL_ABI_VERSION) {
    *reason = library ? "not a library of kernels of this version" : dlerror();
    return nullptr;
  }
  auto image = std::make_shared<KernelImage>();
  for (unsigned i = 0; i < table->count; ++i) image->records_.emplace(table->records[i]->name, table->records[i]);
  return image;
}

std::shared_ptr<KernelImage> KernelImage::compile(const std::string& source, std::string* reason) {
  const char* compiler = std::getenv("MPSX_EMULATION_COMPILER");
  char directory[] = "/tmp/emulated-metal.XXXXXX";
  if (!compiler || !mkdtemp(directory)) {
    *reason = "no compiler";
    return nullptr;
  }
  const std::string base = directory, in = base + "/source.metal", out = base + "/source.so", said = base + "/said";
  std::ofstream(in) << source;
  const int status = std::system((std::string(compiler) + " " + in + " " + out + " >" + said + " 2>&1").c_str());
  std::shared_ptr<KernelImage> image;
  if (status == 0) {
    image = open(out, reason);
  } else {
    std::ostringstream text;
    text << std::ifstream(said).rdbuf();
    *reason = text.str();
  }
  for (const auto& file : {in, out, said}) unlink(file.c_str());
  rmdir(directory);
  return image;
}

const mpsx_kernel_record* KernelImage::find(const std::string& name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : found->second;
}

std::vector<std::string> KernelImage::names() const {
  std::vector<std::string> names;
  for (const auto& [name, record] : records_) names.push_back(name);
  return names;
}

// A threadgroup of the wide mode has one thread.
unsigned max_threads(const mpsx_kernel_record& record) {
  return record.unit == MPSX_UNIT_GROUPS ? 1 : record.max_threads;
}
unsigned simd_width(const mpsx_kernel_record&) { return 1; }

void Launch::run() {
  std::vector<std::vector<unsigned char>> locals;
  for (size_t i = 0; i < std::size(threadgroup_bytes); ++i) {
    if (!threadgroup_bytes[i]) continue;
    locals.emplace_back(threadgroup_bytes[i], 0xff);
    args[MPSX_MAX_BUFFERS + i] = locals.back().data();
  }
  const unsigned* units = record->unit == MPSX_UNIT_THREADS ? grid.threads : grid.groups;
  record->entry(args, &grid, 0, uint64_t(units[0]) * units[1] * units[2]);
}

}  // namespace emulation
