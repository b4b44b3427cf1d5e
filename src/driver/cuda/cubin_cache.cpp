#include "driver/cuda/cubin_cache.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "driver/cache_folder.h"
#include "driver/environment.h"

namespace mpsx::driver::cuda {
namespace {

// Returns the checksum of a file's name and contents, which is stored at the end of the file.
std::string checksum(std::string_view cubin, const std::string& name) {
  return to_hex(content_hash(cubin, content_hash(name)));
}

}  // namespace

CubinCache::CubinCache(const Device& device, bool line_info) {
  if (env_string("MPSX_CUDA_CACHE") == "0") return;
  folder_ = cache_folder("cuda/" + device.architecture() + "-" + std::to_string(device.driver_version) +
                         (device.overlaps_kernels ? "-overlap" : "") +  // a kernel that does not wait must not be found
                         (line_info ? "-lines" : ""));
}

std::string CubinCache::name(const PtxKernel& kernel, unsigned registers) {
  const uint64_t h = content_hash(kernel.code.packed, content_hash(kernel.common.packed));
  const std::string limit = registers ? "-" + std::to_string(registers) : "";
  return to_hex(h) + to_hex(content_hash(kernel.symbol, h)) + limit + ".cubin";
}

std::string CubinCache::find(const PtxKernel& kernel, unsigned registers) const {
  if (folder_.empty()) return {};
  const std::string file_name = name(kernel, registers);
  std::ifstream file(folder_ + "/" + file_name, std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(file)), {});
  if (data.size() <= 16) return {};
  const std::string found = data.substr(data.size() - 16);
  data.resize(data.size() - 16);
  return checksum(data, file_name) == found ? data : std::string();
}

void CubinCache::store(const PtxKernel& kernel, unsigned registers, std::string_view cubin) const {
  if (folder_.empty()) return;
  const std::string file_name = name(kernel, registers), written = temporary_file(folder_);
  if (written.empty()) return;
  std::ofstream file(written, std::ios::binary);
  file << cubin << checksum(cubin, file_name);
  file.close();
  if (!file || std::rename(written.c_str(), (folder_ + "/" + file_name).c_str()) != 0) unlink(written.c_str());
}

}  // namespace mpsx::driver::cuda
