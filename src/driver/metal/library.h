// Loads Metal functions from precompiled libraries, or from source text that is compiled on first use.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "driver/function_constants.h"
#include "driver/metal/device.h"
#include "driver/metal/source_units.h"

namespace mpsx::driver::metal {

// Splits a key such as "layer_norm_f32|bias=1|rows=4" into the name of the function and its constants.
struct FunctionKey {
  explicit FunctionKey(std::string_view key);
  std::string name, constants;  // "layer_norm_f32", "bias=1|rows=4"
};

// The options for compiling a source.
struct Language {
  MTLLanguageVersion version;
  bool fast_math;
};

class FunctionLibrary {
 public:
  // Loads mpsx.metallib from the directory, or mpsx.metal if it contains no metallib. If `tensors` is true, loads
  // mpsx_tensor.metallib or mpsx_tensor.metal instead.
  FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& directory, bool tensors = false);
  // Compiles a user's source text immediately, with the same options as torch.mps.compile_shader. Throws Error with the
  // message of the compiler.
  FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& name, const std::string& text);

  // Returns null if there is no such function. Throws Error if the value of a constant is missing or invalid.
  Owned<id<MTLFunction>> function(const FunctionKey& key);
  std::vector<std::string> names() const;              // sorted
  const std::string& path() const { return path_; }    // the library's file; empty if there is source text instead
  bool uses_tensors() const { return uses_tensors_; }  // whether its functions may use tensor operations

 private:
  id<MTLLibrary> library_of(const std::string& function);
  std::vector<FunctionConstant> known_constants(const std::vector<MTLFunctionConstant*>& used);
  Owned<id<MTLLibrary>> compile(const SourceUnit& unit, const Language& language) const;

  Owned<id<MTLDevice>> device_;
  std::string path_;
  bool uses_tensors_ = false;
  std::mutex mutex_;
  Owned<id<MTLLibrary>> library_;
  std::vector<SourceUnit> units_;
  // One per unit: null until first used, and null with the compiler's message if the unit does not compile.
  std::vector<std::pair<Owned<id<MTLLibrary>>, std::string>> compiled_;
  std::unordered_map<std::string, size_t> unit_index_;  // by function name
  std::vector<std::string> names_;
  // All function constants in a user's shader, by index. Filled on first use.
  std::map<uint32_t, FunctionConstant> constants_;
};

}  // namespace mpsx::driver::metal
