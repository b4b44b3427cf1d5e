// Maps code addresses to source lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::driver::host::simt {

struct SourceLine {
  const char* file = nullptr;  // null if unknown; valid as long as the table exists
  int line = 0;
};

// The line table (DWARF 4, section .debug_line) of an ELF file. Code inlined from our C++ Metal standard library is
// attributed to the line of user code that calls it. Entry points have no lines.
class LineTable {
 public:
  // If the file cannot be read or has no line table, the table is empty.
  explicit LineTable(const std::string& path);
  // `address` is relative to the load address of the file.
  SourceLine find(uint64_t address) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    uint64_t address;
    uint32_t file;  // index into files_, kNone, or kLibrary
    uint32_t line;
  };
  // kNone marks entry points and the ends of sequences, and kLibrary marks the Metal standard library.
  static constexpr uint32_t kNone = ~0u, kLibrary = ~0u - 1;
  class Program;
  std::vector<std::string> files_;
  std::vector<Row> rows_;  // sorted by address
};

// Returns the source line of an address in any library that the process has loaded. Caches line tables.
SourceLine source_line(const void* address);

// The loaded library that contains an address. If there is none, all fields are empty.
struct Image {
  const char* begin = nullptr;
  size_t size = 0;
  const char* base = nullptr;  // the load address
  std::string path;
  const char* thread_begin = nullptr;  // the calling thread's TLS block; null if not used yet
  size_t thread_size = 0;
};
Image image_of(const void* address);

}  // namespace mpsx::driver::host::simt
