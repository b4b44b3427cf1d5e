// Which line of source an address of loaded code comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::driver::host::simt {

struct SourceLine {
  const char* file = nullptr;  // null: not known; else as long-lived as the table
  int line = 0;
};

// The line table (DWARF 4, section .debug_line) of an ELF file. Code of the C++ Metal standard library counts as the
// line of the user's that it was inlined into; entry points have no lines.
class LineTable {
 public:
  // A file that cannot be read, or has no such table, knows no lines.
  explicit LineTable(const std::string& path);
  // `address` as the file numbers it, which is from where it is loaded.
  SourceLine find(uint64_t address) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    uint64_t address;
    uint32_t file;  // in files_; kNone: the end of a sequence, or an entry point; kLibrary: see above
    uint32_t line;
  };
  static constexpr uint32_t kNone = ~0u, kLibrary = ~0u - 1;
  class Program;
  std::vector<std::string> files_;
  std::vector<Row> rows_;  // by address
};

// Of an address in any library of the process; these tables stay.
SourceLine source_line(const void* address);

// The library that an address lies in, as it is mapped; nothing if in none.
struct Image {
  const char* begin = nullptr;
  size_t size = 0;
  const char* base = nullptr;  // what addresses in its file are relative to
  std::string path;
  const char* thread_begin = nullptr;  // its thread_local variables of the thread that asks, once that has used any
  size_t thread_size = 0;
};
Image image_of(const void* address);

}  // namespace mpsx::driver::host::simt
