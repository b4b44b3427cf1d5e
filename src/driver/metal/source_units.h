// mpsx.metal: the kernels' sources as one file, for Macs without Apple's offline compiler. It is a sequence of units,
// each a self-contained Metal source, so that only those whose kernels are used are ever compiled:
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

// Throws Error naming the file where it does not look as above.
std::vector<SourceUnit> read_source_units(const std::string& path);
std::vector<SourceUnit> parse_source_units(std::string_view text, const std::string& path);

}  // namespace mpsx::driver::metal
