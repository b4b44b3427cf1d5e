#include "driver/metal/source_units.h"

#include <fstream>
#include <sstream>

#include "driver/driver.h"

namespace mpsx::driver::metal {
namespace {

constexpr std::string_view kUnit = "//mpsx:unit ", kKernels = "//mpsx:kernels ";

std::vector<std::string> words(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

}  // namespace

std::vector<SourceUnit> parse_source_units(std::string_view text, const std::string& path) {
  std::vector<SourceUnit> units;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.starts_with(kUnit)) {
      units.emplace_back().name = line.substr(kUnit.size());
    } else if (units.empty()) {
      throw Error(path + ": expected a line " + std::string(kUnit) + "NAME, got \"" + std::string(line) + "\"");
    } else if (line.starts_with(kKernels)) {
      for (auto& word : words(line.substr(kKernels.size()))) units.back().kernels.push_back(std::move(word));
    } else {
      units.back().text.append(line).push_back('\n');
    }
  }
  if (units.empty()) throw Error(path + ": no kernel sources: the installation is incomplete; reinstall mpsx");
  return units;
}

std::vector<SourceUnit> read_source_units(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw Error("cannot read " + path);
  return parse_source_units(text.view(), path);
}

}  // namespace mpsx::driver::metal
