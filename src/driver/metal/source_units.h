// mpsx.metal contains the sources of all kernels, for Macs without Apple's offline compiler. It is a sequence of units,
// each a self-contained Metal source, which are compiled separately when one of their kernels is used:
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

// Throws Error naming the file if it does not have this format.
std::vector<SourceUnit> read_source_units(const std::string& path);
std::vector<SourceUnit> parse_source_units(std::string_view text, const std::string& path);

}  // namespace mpsx::driver::metal
