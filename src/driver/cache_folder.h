// The disk cache of compiled kernels: python/mpsx/shader/cache.py says where it is, and which folders are trusted.
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

namespace mpsx::driver {

namespace cache_detail {

inline constexpr const char* kTemporary = "tmp-";
inline constexpr time_t kStaleSeconds = 3600;
inline constexpr mode_t kWritableByOthers = 022;

inline std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

inline std::string base_folder() {
  if (const auto chosen = environment_value("MPSX_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const auto all = environment_value("XDG_CACHE_HOME"); !all.empty() && all[0] == '/') return all + "/mpsx";
  const auto home = environment_value("HOME");
  return home.empty() ? "" : home + "/.cache/mpsx";
}

inline void say_once(const std::string& folder, const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (!said.insert(folder).second) return;
  std::fprintf(stderr, "mpsx: the cache folder %s is not used, since %s: compiled kernels are not kept\n",
               folder.c_str(), why.c_str());
}

// Whether the folder is there, made if need be, and this user's alone to write.
inline bool is_trusted(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat facts {};
  if (stat(folder.c_str(), &facts) != 0) return false;
  if (facts.st_uid != geteuid())
    say_once(folder, "it belongs to the user with the id " + std::to_string(facts.st_uid));
  else if (facts.st_mode & kWritableByOthers)
    say_once(folder, "other users can write to it");
  else
    return true;
  return false;
}

}  // namespace cache_detail

// A folder in the cache, made if need be for this user alone. Empty where there is none, or where another user owns it
// or can write to it, which is said once: the code in it would be loaded.
inline std::string cache_folder(const std::string& part) {
  const std::string base = cache_detail::base_folder(), folder = base + "/" + part;
  if (base.empty()) return "";
  for (size_t at = base.find('/', 1); at != base.npos; at = base.find('/', at + 1))
    mkdir(base.substr(0, at).c_str(), 0777);
  for (size_t at = base.size(); at != folder.npos; at = folder.find('/', at + 1))
    if (!cache_detail::is_trusted(folder.substr(0, at))) return "";
  return cache_detail::is_trusted(folder) && access(folder.c_str(), W_OK) == 0 ? folder : "";
}

// A hash of bytes that tells damage, not malice.
inline uint64_t content_hash(std::string_view data, uint64_t h = 0xcbf29ce484222325u) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;  // eight bytes at a time: an archive has megabytes
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

// A new file in a folder of the cache, to be renamed once it is written; an empty name if it cannot be made. Those that
// processes left when they were killed go.
inline std::string temporary_file(const std::string& folder) {
  if (DIR* const open = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(open)) {
      const std::string path = folder + "/" + entry->d_name;
      struct stat facts {};
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
