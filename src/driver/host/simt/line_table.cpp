// The ELF format is specified in chapter 4 of "System V Application Binary Interface", and line tables in section 6.2
// of "DWARF Debugging Information Format, version 4".
#include "driver/host/simt/line_table.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#ifdef __linux__
#  include <elf.h>
#  include <link.h>
#endif

namespace mpsx::driver::host::simt {

// Reads numbers and strings, with bounds checks.
class Reader {
 public:
  Reader(const char* begin, const char* end) : at_(begin), end_(end) {}
  bool done() const { return at_ >= end_; }
  const char* at() const { return at_; }
  size_t left() const { return size_t(end_ - at_); }
  void skip(uint64_t bytes) { at_ += std::min<uint64_t>(bytes, left()); }
  Reader take(uint64_t bytes) {
    const char* from = at_;
    skip(bytes);
    return {from, at_};
  }

  template <typename T>
  T number() {
    T value{};
    if (left() >= sizeof value) std::memcpy(&value, at_, sizeof value);
    skip(sizeof value);
    return value;
  }
  uint64_t unsigned_leb() {
    uint64_t value = 0;
    for (unsigned shift = 0; !done(); shift += 7) {
      const auto byte = uint8_t(*at_++);
      if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }
  int64_t signed_leb() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    do {
      if (done()) return 0;
      byte = uint8_t(*at_++);
      if (shift < 64) value |= uint64_t(byte & 0x7f) << shift;
      shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40)) value |= ~uint64_t(0) << shift;
    return int64_t(value);
  }
  std::string_view text() {
    const auto* end = static_cast<const char*>(std::memchr(at_, 0, left()));
    const std::string_view result(at_, size_t((end ? end : end_) - at_));
    skip(result.size() + 1);
    return result;
  }

 private:
  const char *at_, *end_;
};

namespace {

#ifdef __linux__
// Returns the contents of a section, or an empty view if the file does not have the section.
std::string_view section(const std::string& file, std::string_view wanted) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  const auto entry = [&](size_t i) {
    Elf64_Shdr s{};
    const uint64_t offset = header.e_shoff + i * sizeof s;
    if (i < header.e_shnum && offset <= file.size() && file.size() - offset >= sizeof s)
      std::memcpy(&s, file.data() + offset, sizeof s);
    if (s.sh_offset > file.size() || s.sh_size > file.size() - s.sh_offset) s = {};
    return s;
  };
  const Elf64_Shdr names = entry(header.e_shstrndx);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = entry(i);
    if (s.sh_name >= names.sh_size || (s.sh_flags & SHF_COMPRESSED)) continue;
    const char* name = file.data() + names.sh_offset + s.sh_name;
    if (std::string_view(name, strnlen(name, names.sh_size - s.sh_name)) == wanted)
      return {file.data() + s.sh_offset, s.sh_size};
  }
  return {};
}
#endif

// Returns whether the file is part of our Metal standard library in C++.
bool is_library(std::string_view directory, std::string_view name) {
  return directory.ends_with("metal_stdlib") && name.ends_with(".h");
}

}  // namespace

// Executes the line number program of one unit.
class LineTable::Program {
 public:
  Program(LineTable& table, Reader unit) : table_(table), unit_(unit) {}

  void run() {
    const auto version = unit_.number<uint16_t>();
    if (version < 2 || version > 4) return;
    Reader header = unit_.take(unit_.number<uint32_t>());
    minimum_ = header.number<uint8_t>();
    if (version >= 4) header.skip(1);  // maximum_operations_per_instruction, always 1
    header.skip(1);                    // default_is_stmt, unused
    line_base_ = header.number<int8_t>();
    line_range_ = std::max<uint8_t>(header.number<uint8_t>(), 1);
    opcode_base_ = header.number<uint8_t>();
    lengths_.push_back(0);
    for (unsigned i = 1; i < opcode_base_; ++i) lengths_.push_back(header.number<uint8_t>());
    std::vector<std::string> directories{""};
    while (!header.done()) {
      const auto name = header.text();
      if (name.empty()) break;
      directories.emplace_back(name);
    }
    files_.push_back(kLibrary);
    while (!header.done()) {
      const auto name = header.text();
      if (name.empty()) break;
      const uint64_t directory = header.unsigned_leb();
      header.unsigned_leb(), header.unsigned_leb();  // modification time, file size
      const std::string& d = directories[directory < directories.size() ? directory : 0];
      if (name.front() == '<' || is_library(d, name)) {  // for example "<entries>"
        files_.push_back(name.front() == '<' ? kNone : kLibrary);
        continue;
      }
      files_.push_back(uint32_t(table_.files_.size()));
      table_.files_.push_back(name.front() == '/' || d.empty() || directory == 0 ? std::string(name)
                                                                                 : d + "/" + std::string(name));
    }
    while (!unit_.done()) step();
  }

 private:
  void reset() { address_ = 0, file_ = 1, line_ = 1; }
  void row() { table_.rows_.push_back({address_, file_ < files_.size() ? files_[file_] : kLibrary, uint32_t(line_)}); }

  void step() {
    const auto opcode = unit_.number<uint8_t>();
    if (opcode >= opcode_base_) return special(opcode);
    switch (opcode) {
      case 0: return extended();
      case 1: return row();
      case 2: address_ += unit_.unsigned_leb() * minimum_; return;
      case 3: line_ += unit_.signed_leb(); return;
      case 4: file_ = unit_.unsigned_leb(); return;
      case 8: address_ += uint64_t((255 - opcode_base_) / line_range_) * minimum_; return;
      case 9: address_ += unit_.number<uint16_t>(); return;
      default:
        for (unsigned i = 0; i < lengths_[opcode]; ++i) unit_.unsigned_leb();
    }
  }

  void special(uint8_t opcode) {
    const unsigned adjusted = unsigned(opcode - opcode_base_);
    address_ += uint64_t(adjusted / line_range_) * minimum_;
    line_ += line_base_ + int(adjusted % line_range_);
    row();
  }

  void extended() {
    Reader body = unit_.take(unit_.unsigned_leb());
    switch (body.number<uint8_t>()) {
      case 1:  // end of sequence
        table_.rows_.push_back({address_, kNone, 0});
        return reset();
      case 2: address_ = body.number<uint64_t>(); return;
      default: return;
    }
  }

  LineTable& table_;
  Reader unit_;
  std::vector<uint32_t> files_;
  std::vector<uint8_t> lengths_;
  uint8_t minimum_ = 1, line_range_ = 1, opcode_base_ = 1;
  int line_base_ = 0;
  uint64_t address_ = 0, file_ = 1;
  int64_t line_ = 1;
};

LineTable::LineTable(const std::string& path) {
#ifdef __linux__
  std::ifstream stream(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto lines = section(file, ".debug_line");
  for (Reader units(lines.data(), lines.data() + lines.size()); units.left() > 4;) {
    const auto length = units.number<uint32_t>();
    if (length >= 0xfffffff0u) break;  // 64-bit DWARF, which compilers do not emit by default
    Program(*this, units.take(length)).run();
  }
  // If a sequence starts where the previous one ends, the end marker must come first.
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.address != b.address ? a.address<b.address : (a.file == kNone)>(b.file == kNone);
  });
#else
  (void)path;
#endif
}

SourceLine LineTable::find(uint64_t address) const {
  auto row =
      std::upper_bound(rows_.begin(), rows_.end(), address, [](uint64_t a, const Row& r) { return a < r.address; });
  if (row == rows_.begin()) return {};
  --row;
  // Code merged from several lines has line 0. Use the line before it.
  while ((row->file == kLibrary || row->line == 0) && row != rows_.begin() && std::prev(row)->file != kNone) --row;
  if (row->file >= kLibrary || row->line == 0) return {};
  return {files_[row->file].c_str(), int(row->line)};
}

Image image_of(const void* address) {
  Image image;
#ifdef __linux__
  struct Query {
    uintptr_t address;
    Image* image;
  } query{uintptr_t(address), &image};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) {
    auto& q = *static_cast<Query*>(data);
    uintptr_t begin = ~uintptr_t(0), end = 0;
    size_t thread_size = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const auto& p = info->dlpi_phdr[i];
      if (p.p_type == PT_TLS) thread_size = p.p_memsz;
      if (p.p_type != PT_LOAD) continue;
      begin = std::min<uintptr_t>(begin, info->dlpi_addr + p.p_vaddr);
      end = std::max<uintptr_t>(end, info->dlpi_addr + p.p_vaddr + p.p_memsz);
    }
    if (q.address < begin || q.address >= end) return 0;
    *q.image = {reinterpret_cast<const char*>(begin),           end - begin,
                reinterpret_cast<const char*>(info->dlpi_addr), info->dlpi_name ? info->dlpi_name : "",
                static_cast<const char*>(info->dlpi_tls_data),  info->dlpi_tls_data ? thread_size : 0};
    return 1;
  };
  dl_iterate_phdr(visit, &query);
#else
  (void)address;
#endif
  return image;
}

SourceLine source_line(const void* address) {
  static std::mutex mutex;
  static auto* tables = new std::map<std::string, std::unique_ptr<LineTable>>;
  const Image image = image_of(address);
  if (image.path.empty()) return {};
  std::lock_guard<std::mutex> lock(mutex);
  auto& table = (*tables)[image.path];
  if (!table) table = std::make_unique<LineTable>(image.path);
  return table->find(uint64_t(static_cast<const char*>(address) - image.base));
}

}  // namespace mpsx::driver::host::simt
