#include "driver/metal/library.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace mpsx::driver::metal {
namespace {

std::vector<std::string> sorted_names(id<MTLLibrary> library) {
  NSArray<NSString*>* functions = library.functionNames;
  std::vector<std::string> names;
  for (NSUInteger i = 0; i < functions.count; ++i) names.push_back(to_string([functions objectAtIndex:i]));
  std::sort(names.begin(), names.end());
  return names;
}

template <typename T>
void set(MTLFunctionConstantValues* values, T value, MTLDataType type, NSString* name) {
  [values setConstantValue:&value type:type withName:name];
}

// Gives `values` the constant in the type that the function declares it with.
void set_constant(MTLFunctionConstantValues* values, const FunctionKey& key, const std::string& constant,
                  const std::string& text, MTLDataType type) {
  NSString* name = to_ns(constant);
  char* end = nullptr;
  if (type == MTLDataTypeFloat) {
    set(values, std::strtof(text.c_str(), &end), type, name);
  } else {
    const long long value = std::strtoll(text.c_str(), &end, 0);
    switch (type) {
      case MTLDataTypeBool: set(values, BOOL(value != 0), type, name); break;
      case MTLDataTypeChar:
      case MTLDataTypeUChar: set(values, int8_t(value), type, name); break;
      case MTLDataTypeShort:
      case MTLDataTypeUShort: set(values, int16_t(value), type, name); break;
      case MTLDataTypeInt:
      case MTLDataTypeUInt: set(values, int32_t(value), type, name); break;
      case MTLDataTypeLong:
      case MTLDataTypeULong: set(values, int64_t(value), type, name); break;
      default:
        throw Error(key.name + ": function constant " + constant + " has a type that cannot be set (MTLDataType " +
                    std::to_string(type) + ")");
    }
  }
  if (end == text.c_str() || *end)
    throw Error(key.name + ": function constant " + constant + ": expected a number, got \"" + text + "\"");
}

}  // namespace

FunctionKey FunctionKey::parse(std::string_view key) {
  FunctionKey parsed;
  size_t at = std::min(key.find('|'), key.size());
  parsed.name = key.substr(0, at);
  while (at < key.size()) {
    const size_t next = std::min(key.find('|', at + 1), key.size());
    const std::string_view constant = key.substr(at + 1, next - at - 1);
    const size_t equals = constant.find('=');
    if (equals == constant.npos)
      throw Error("kernel key \"" + std::string(key) + "\": expected constant=value after each |");
    parsed.constants.emplace_back(constant.substr(0, equals), constant.substr(equals + 1));
    at = next;
  }
  return parsed;
}

FunctionLibrary::FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& directory)
    : device_(std::move(device)) {
  AutoreleasePool pool;
  const std::string compiled = directory + "/mpsx.metallib", source = directory + "/mpsx.metal";
  if (access(compiled.c_str(), R_OK) == 0) {
    path_ = compiled;
    NSError* error = nil;
    whole_ = Owned<id<MTLLibrary>>::taking([device_.get() newLibraryWithURL:[NSURL fileURLWithPath:to_ns(compiled)]
                                                                      error:&error]);
    if (!whole_) throw Error("cannot load the kernel library " + compiled + ": " + describe(error));
    names_ = sorted_names(whole_.get());
    return;
  }
  if (access(source.c_str(), R_OK) != 0)
    throw Error("neither mpsx.metallib nor mpsx.metal is in " + directory +
                ": the installation is incomplete; reinstall mpsx");
  path_ = source;
  units_ = read_source_units(source);
  compiled_.resize(units_.size());
  for (size_t i = 0; i < units_.size(); ++i)
    for (const auto& kernel : units_[i].kernels) {
      unit_of_.emplace(kernel, i);
      names_.push_back(kernel);
    }
  std::sort(names_.begin(), names_.end());
}

FunctionLibrary::FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& name, const std::string& text)
    : device_(std::move(device)) {
  AutoreleasePool pool;
  whole_ = compile({name, text, {}});
  names_ = sorted_names(whole_.get());
}

Owned<id<MTLLibrary>> FunctionLibrary::compile(const SourceUnit& unit) const {
  NSString* text = to_ns(unit.text);
  if (!text) throw Error(unit.name + ": expected UTF-8 text");
  const auto options = Owned<MTLCompileOptions*>::taking([[MTLCompileOptions alloc] init]);
  options.get().languageVersion = MTLLanguageVersion3_1;
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"  // mathMode is newer than the oldest macOS we run on
  options.get().fastMathEnabled = NO;
#pragma clang diagnostic pop
  NSError* error = nil;
  auto library =
      Owned<id<MTLLibrary>>::taking([device_.get() newLibraryWithSource:text options:options.get() error:&error]);
  if (!library) throw Error("cannot compile " + unit.name + ": " + describe(error));
  return library;
}

id<MTLLibrary> FunctionLibrary::library_of(const std::string& function) {
  if (whole_) return whole_.get();
  const auto found = unit_of_.find(function);
  if (found == unit_of_.end()) return nil;
  auto& library = compiled_[found->second];
  if (!library) library = compile(units_[found->second]);
  return library.get();
}

Owned<id<MTLFunction>> FunctionLibrary::function(const FunctionKey& key) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  // Asking Metal for a name it does not have is slow and may log.
  if (!std::binary_search(names_.begin(), names_.end(), key.name)) return {};
  id<MTLLibrary> library = library_of(key.name);
  auto plain = Owned<id<MTLFunction>>::taking([library newFunctionWithName:to_ns(key.name)]);
  if (!plain) return {};
  NSDictionary<NSString*, MTLFunctionConstant*>* declared = plain.get().functionConstantsDictionary;
  if (key.constants.empty() && declared.count == 0) return plain;

  const auto values = Owned<MTLFunctionConstantValues*>::taking([[MTLFunctionConstantValues alloc] init]);
  for (const auto& [name, value] : key.constants) {
    MTLFunctionConstant* constant = [declared objectForKey:to_ns(name)];
    if (!constant) throw Error(key.name + ": has no function constant " + name);
    set_constant(values.get(), key, name, value, constant.type);
  }
  NSError* error = nil;
  auto special = Owned<id<MTLFunction>>::taking([library newFunctionWithName:to_ns(key.name)
                                                              constantValues:values.get()
                                                                       error:&error]);
  if (!special) throw Error(key.name + ": cannot set its function constants: " + describe(error));
  return special;
}

std::vector<std::string> FunctionLibrary::names() const { return names_; }

}  // namespace mpsx::driver::metal
