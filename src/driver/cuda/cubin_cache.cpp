#include "driver/cuda/cubin_cache.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "driver/cache_folder.h"

namespace mpsx::driver::cuda {
namespace {

// A file ends with the hash of its name and of what comes before.
std::string seal(std::string_view cubin, const std::string& name) {
  return to_hex(content_hash(cubin, content_hash(name)));
}

}  // namespace

CubinCache::CubinCache(const Device& device) {
  const char* const chosen = std::getenv("MPSX_CUDA_CACHE");
  if (chosen && std::string_view(chosen) == "0") return;
  folder_ = cache_folder("cuda/" + device.architecture() + "-" + std::to_string(device.driver_version));
}

std::string CubinCache::name(std::string_view unit, const std::string& symbol) {
  const uint64_t h = content_hash(unit);
  return to_hex(h) + to_hex(content_hash(symbol, h)) + ".cubin";
}

std::string CubinCache::find(std::string_view unit, const std::string& symbol) const {
  if (folder_.empty()) return {};
  const std::string file_name = name(unit, symbol);
  std::ifstream file(folder_ + "/" + file_name, std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(file)), {});
  if (data.size() <= 16) return {};
  const std::string found = data.substr(data.size() - 16);
  data.resize(data.size() - 16);
  return seal(data, file_name) == found ? data : std::string();
}

void CubinCache::store(std::string_view unit, const std::string& symbol, std::string_view cubin) const {
  if (folder_.empty()) return;
  const std::string file_name = name(unit, symbol), written = temporary_file(folder_);
  if (written.empty()) return;
  std::ofstream file(written, std::ios::binary);
  file << cubin << seal(cubin, file_name);
  file.close();
  if (!file || std::rename(written.c_str(), (folder_ + "/" + file_name).c_str()) != 0) unlink(written.c_str());
}

}  // namespace mpsx::driver::cuda
