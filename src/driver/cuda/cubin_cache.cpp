#include "driver/cuda/cubin_cache.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mpsx::driver::cuda {
namespace {

constexpr uint64_t kSeed = 0xcbf29ce484222325u;  // FNV-1a

uint64_t hash(std::string_view data, uint64_t h = kSeed) {
  for (const char c : data) h = (h ^ uint8_t(c)) * 0x100000001b3u;
  return h;
}

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string base_folder() {
  if (const std::string chosen = variable("MPSX_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/mpsx";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/mpsx";
}

}  // namespace

CubinCache::CubinCache(const Device& device) {
  const std::string base = base_folder();
  if (base.empty() || variable("MPSX_CUDA_CACHE") == "0") return;
  folder_ = base + "/cuda/" + device.architecture() + "-" + std::to_string(device.driver_version);
}

std::string CubinCache::path(std::string_view unit, const std::string& symbol) const {
  const uint64_t h = hash(unit);
  return folder_ + "/" + hex(h) + hex(hash(symbol, h ^ unit.size())) + ".cubin";
}

// A file ends with the hash of what comes before: another process may be writing it, or have been stopped.
std::string CubinCache::find(std::string_view unit, const std::string& symbol) const {
  if (folder_.empty()) return {};
  std::ifstream file(path(unit, symbol), std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(file)), {});
  if (data.size() <= 16) return {};
  const std::string sum = data.substr(data.size() - 16);
  data.resize(data.size() - 16);
  return hex(hash(data)) == sum ? data : std::string();
}

void CubinCache::store(std::string_view unit, const std::string& symbol, std::string_view cubin) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string target = path(unit, symbol), written = target + "." + std::to_string(getpid());
  std::ofstream file(written, std::ios::binary);
  file << cubin << hex(hash(cubin));
  file.close();
  if (file)
    std::filesystem::rename(written, target, error);
  else
    std::filesystem::remove(written, error);
}

}  // namespace mpsx::driver::cuda
