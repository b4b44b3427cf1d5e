#include "driver/cuda/ptx_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "driver/driver.h"

namespace mpsx::driver::cuda {
namespace {

// Decompresses with the system's zlib (libz.so.1), which is installed on every Linux distribution and which manylinux
// wheels may depend on. It is loaded at run time to avoid a build dependency.
std::string decompress(const PackedText& from) {
  using Uncompress = int(unsigned char* to, unsigned long* to_size, const unsigned char* from, unsigned long from_size);
  static Uncompress* const uncompress = [] {
    void* const library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const function = library ? reinterpret_cast<Uncompress*>(dlsym(library, "uncompress")) : nullptr;
    if (!function) throw Error("cannot load zlib (libz.so.1), which decompresses the kernels' PTX");
    return function;
  }();
  std::string text(from.size, 0);
  unsigned long written = from.size;
  if (uncompress(reinterpret_cast<unsigned char*>(text.data()), &written,
                 reinterpret_cast<const unsigned char*>(from.packed.data()), from.packed.size()) != 0 ||
      written != from.size)
    throw Error("the PTX library is damaged; reinstall mpsx");
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == text.npos) return words;
    text.remove_prefix(end + 1);
  }
}

size_t number(std::string_view word) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    throw Error("expected a number, got " + std::string(word));
  return value;
}

// Parses the description of a parameter: "p0" is a pointer, "v2:12:4" a value (index, bytes, alignment), and "t0"
// threadgroup memory.
Parameter parameter(std::string_view word) {
  const auto fields = split(word.substr(1), ':');
  using Kind = Parameter::Kind;
  const Kind kind = word[0] == 'p' ? Kind::pointer : word[0] == 'v' ? Kind::value : Kind::threadgroup;
  return {kind, uint32_t(number(fields[0])), kind == Kind::value ? uint32_t(number(fields.at(1))) : 0};
}

}  // namespace

PtxLibrary::PtxLibrary(const std::string& path, const std::string& target) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) close(file);
    throw Error("cannot read the kernels' PTX, " + path + ": " + reason);
  }
  mapped_size_ = size_t(facts.st_size);
  mapped_ = mmap(nullptr, std::max<size_t>(mapped_size_, 1), PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped_ == MAP_FAILED) throw Error("cannot map " + path + ": " + std::strerror(errno));
  try {
    read({static_cast<const char*>(mapped_), mapped_size_}, target);
  } catch (const std::exception& e) {
    munmap(mapped_, mapped_size_);
    throw Error(path + " is not a valid PTX library: " + e.what());
  }
}

PtxLibrary::~PtxLibrary() { munmap(mapped_, mapped_size_); }

void PtxLibrary::read(std::string_view data, const std::string& target) {
  const size_t head = data.find("\nend\n");
  if (data.rfind("mpsx-ptx 5\n", 0) != 0 || head == data.npos) throw Error("unknown format");
  size_t at = head + 5;
  const auto next = [&](std::string_view packed, std::string_view size) -> PackedText {
    const PackedText text{data.substr(at, number(packed)), number(size)};
    if (text.packed.size() != number(packed)) throw Error("unexpected end of file");
    at += text.packed.size();
    return text;
  };
  PackedText common;
  // Whether this GPU can run the unit's code, and whether that code was compiled for exactly `target`.
  bool usable = false, preferred = false;
  for (const std::string_view line : split(data.substr(0, head), '\n')) {
    const auto words = split(line, '\t');
    if (words[0] == "compiler") {
      compiler_ = words.at(1);
    } else if (words[0] == "unit") {
      common = next(words.at(1), words.at(2));
      preferred = words.at(3) == target;
      usable = preferred || words[3].back() != 'a';
    } else if (words[0] == "kernel") {
      PtxKernel kernel;
      kernel.common = common;
      kernel.code = next(words.at(1), words.at(2));
      kernel.symbol = words.at(4);
      if (words.at(5) != "-")
        for (const std::string_view word : split(words[5], ' ')) kernel.parameters.push_back(parameter(word));
      kernel.name = words.at(6);
      const auto staging = split(words.at(7), ':');
      kernel.staging = uint32_t(number(staging[0]));
      kernel.simdgroup_staging = uint32_t(number(staging.at(1)));
      kernel.max_staging = uint32_t(number(staging.at(2)));
      kernel.additional_threads = uint32_t(number(words.at(8)));
      if (!usable) continue;
      if (preferred)
        kernels_.insert_or_assign(kernel.name, kernel);
      else
        kernels_.emplace(kernel.name, kernel);
    }
  }
}

const PtxKernel* PtxLibrary::find(std::string_view name) const {
  const auto found = kernels_.find(std::string(name));
  return found == kernels_.end() ? nullptr : &found->second;
}

std::vector<std::string> PtxLibrary::names() const {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string PtxLibrary::text(const PtxKernel& kernel) { return decompress(kernel.common) + decompress(kernel.code); }

}  // namespace mpsx::driver::cuda
