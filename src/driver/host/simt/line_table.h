// Maps code addresses to source lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::driver::host::simt {

struct SourceLine {
  const char* file = nullptr;  // null if unknown; otherwise valid as long as the table exists
  int line = 0;
};

// The line table (DWARF 4, section .debug_line) of an ELF file. Maps inlined code of our C++ Metal standard library to
// the line of user code that calls it. Entry points have no lines.
class LineTable {
 public:
  // Creates an empty table if the file cannot be read or has no line table.
  explicit LineTable(const std::string& path);
  // `address` is relative to the file's load address.
  SourceLine find(uint64_t address) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    uint64_t address;
    uint32_t file;  // index into files_, kNone, or kLibrary
    uint32_t line;
  };
  // kNone marks the end of a sequence or an entry point, and kLibrary marks the Metal standard library.
  static constexpr uint32_t kNone = ~0u, kLibrary = ~0u - 1;
  class Program;
  std::vector<std::string> files_;
  std::vector<Row> rows_;  // sorted by address
};

// Returns the source line of an address in any library of the process. Caches the line tables.
SourceLine source_line(const void* address);

// Describes the mapped library that contains an address. All fields are empty if no library contains it.
struct Image {
  const char* begin = nullptr;
  size_t size = 0;
  const char* base = nullptr;  // the load address
  std::string path;
  const char* thread_begin = nullptr;  // the library's TLS block for the calling thread, if the thread has used it
  size_t thread_size = 0;
};
Image image_of(const void* address);

}  // namespace mpsx::driver::host::simt
