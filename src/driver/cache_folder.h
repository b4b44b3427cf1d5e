// The on-disk cache of compiled kernels. python/mpsx/shader/cache.py documents where it is and which folders are
// trusted.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "driver/environment.h"

namespace mpsx::driver {

namespace cache_detail {

inline constexpr const char* kTemporary = "tmp-";
inline constexpr time_t kStaleSeconds = 3600;
inline constexpr mode_t kWritableByOthers = 022;

inline std::string base_folder() {
  if (const auto chosen = env_string("MPSX_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const auto all = env_string("XDG_CACHE_HOME"); !all.empty() && all[0] == '/') return all + "/mpsx";
  const auto home = env_string("HOME");
  return home.empty() ? "" : home + "/.cache/mpsx";
}

inline void warn_once(const std::string& folder, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  const std::lock_guard lock(mutex);
  if (!warned.insert(folder).second) return;
  std::fprintf(stderr, "mpsx: not caching compiled kernels in %s, because %s\n", folder.c_str(), reason.c_str());
}

// Creates the folder if necessary. Returns whether the folder exists and only this user can write to it.
inline bool is_trusted(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat facts{};
  if (stat(folder.c_str(), &facts) != 0) return false;
  if (facts.st_uid != geteuid())
    warn_once(folder, "it is owned by user ID " + std::to_string(facts.st_uid));
  else if (facts.st_mode & kWritableByOthers)
    warn_once(folder, "other users can write to it");
  else
    return true;
  return false;
}

}  // namespace cache_detail

// Returns the path of a folder in the cache. Creates the folder if necessary, accessible only to this user. The process
// loads code from the cache. So if a different user owns the folder or can write to it, warns once and returns an empty
// string. Any other failure also returns an empty string.
inline std::string cache_folder(const std::string& part) {
  const std::string base = cache_detail::base_folder(), folder = base + "/" + part;
  if (base.empty()) return "";
  for (size_t at = base.find('/', 1); at != base.npos; at = base.find('/', at + 1))
    mkdir(base.substr(0, at).c_str(), 0777);
  for (size_t at = base.size(); at != folder.npos; at = folder.find('/', at + 1))
    if (!cache_detail::is_trusted(folder.substr(0, at))) return "";
  return cache_detail::is_trusted(folder) && access(folder.c_str(), W_OK) == 0 ? folder : "";
}

// A non-cryptographic hash that detects corruption. It processes eight bytes at a time, because archives are large.
inline uint64_t content_hash(std::string_view data, uint64_t h = 0xcbf29ce484222325u) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  const auto add = [&h](uint64_t word) {
    h = (h ^ word) * kFactor;
    h ^= h >> 32;
  };
  size_t i = 0;
  for (uint64_t word; i + sizeof word <= data.size(); i += sizeof word) {
    std::memcpy(&word, data.data() + i, sizeof word);
    add(word);
  }
  for (; i < data.size(); ++i) add(static_cast<unsigned char>(data[i]));
  add(data.size());
  return h;
}

inline std::string to_hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Creates a temporary file in a cache folder. The caller writes and then renames it. Returns an empty name on failure.
// Also deletes stale temporary files that killed processes have left behind.
inline std::string temporary_file(const std::string& folder) {
  if (DIR* const open = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(open)) {
      const std::string path = folder + "/" + entry->d_name;
      struct stat facts{};
      if (std::strncmp(entry->d_name, cache_detail::kTemporary, std::strlen(cache_detail::kTemporary)) == 0 &&
          stat(path.c_str(), &facts) == 0 && std::time(nullptr) - facts.st_mtime > cache_detail::kStaleSeconds)
        unlink(path.c_str());
    }
    closedir(open);
  }
  std::string name = folder + "/" + cache_detail::kTemporary + "XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return "";
  close(file);
  return name;
}

}  // namespace mpsx::driver
