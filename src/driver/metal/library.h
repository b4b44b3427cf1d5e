// Where Metal functions come from: libraries compiled beforehand, and sources compiled when first needed.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver/function_constants.h"
#include "driver/metal/device.h"
#include "driver/metal/source_units.h"

namespace mpsx::driver::metal {

// A function's name and the values of its constants, out of a key "layer_norm_f32|bias=1|rows=4".
struct FunctionKey {
  explicit FunctionKey(std::string_view key);
  std::string name, constants;  // "layer_norm_f32", "bias=1|rows=4"
};

// The language of a source.
struct Language {
  MTLLanguageVersion version;
  bool fast_math;
};

class FunctionLibrary {
 public:
  // mpsx.metallib of the directory, else mpsx.metal.
  FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& directory);
  // A user's source text, compiled immediately and as torch.mps.compile_shader compiles it. Throws Error with the
  // compiler's words.
  FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& name, const std::string& text);

  // None if there is no such function. Throws Error for missing or unsuitable values of its constants.
  Owned<id<MTLFunction>> function(const FunctionKey& key);
  std::vector<std::string> names() const;            // sorted
  const std::string& path() const { return path_; }  // the file it was read from; empty: none

 private:
  id<MTLLibrary> library_of(const std::string& function);
  std::vector<FunctionConstant> known_constants(const std::vector<MTLFunctionConstant*>& used);
  Owned<id<MTLLibrary>> compile(const SourceUnit& unit, const Language& language) const;

  Owned<id<MTLDevice>> device_;
  std::string path_;
  std::mutex mutex_;
  Owned<id<MTLLibrary>> whole_;
  std::vector<SourceUnit> units_;
  std::vector<Owned<id<MTLLibrary>>> compiled_;      // of the unit at the same place, once needed
  std::unordered_map<std::string, size_t> unit_of_;  // a function's
  std::vector<std::string> names_;
  std::map<uint32_t, FunctionConstant> constants_;  // of a shader's functions, by index, once needed
};

}  // namespace mpsx::driver::metal
