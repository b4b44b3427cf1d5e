// mpsx.metal contains the source of all kernels, for Macs without Apple's offline compiler. It is a sequence of
// self-contained Metal sources, which are called units. A unit is compiled when one of its kernels is first used:
//
//   //mpsx:unit metal/norm/softmax.metal
//   //mpsx:kernels softmax_f32 softmax_f16 …
//   …the source…
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mpsx::driver::metal {

struct SourceUnit {
  std::string name, text;
  std::vector<std::string> kernels;
};

// If the format of the file is invalid, throws an Error that names the file.
std::vector<SourceUnit> read_source_units(const std::string& path);
std::vector<SourceUnit> parse_source_units(std::string_view text, const std::string& path);

}  // namespace mpsx::driver::metal
