#include "driver/metal/library.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "driver/reflection.h"

namespace mpsx::driver::metal {
namespace {

// SDKs before macOS 26 do not declare this.
constexpr auto kMetal4 = MTLLanguageVersion(4 << 16);

// The options for compiling the project's own kernels.
constexpr Language kKernelLanguage{MTLLanguageVersion3_1, false}, kTensorLanguage{kMetal4, false};

// Users' shaders are compiled as PyTorch does (MetalShaderLibrary::compileLibrary): with the newest language version
// that macOS supports, and with fast math if the environment variable requests it. Versions that are newer than the
// SDK's headers are given by number.
Language user_language() {
  const NSInteger macos = NSProcessInfo.processInfo.operatingSystemVersion.majorVersion;
  const char* fast = std::getenv("PYTORCH_MPS_FAST_MATH");
  Language language{MTLLanguageVersion3_1, fast && std::string_view(fast) != "0"};
  if (macos >= 26)
    language.version = kMetal4;
  else if (macos >= 15)
    language.version = MTLLanguageVersion((3 << 16) + 2);
  return language;
}

// Returns whether the source contains a name from Metal 4's tensor API (msl/passes/tensors.py).
bool mentions_tensors(std::string_view text) {
  for (const char* word : {"tensor_ops", "tensor_handle", "tensor_inline", "cooperative_tensor", "dextents"})
    if (text.find(word) != text.npos) return true;
  return false;
}

// Returns a message that explains why a source with tensors may not compile on this system, or an empty string if the
// system supports tensors.
std::string tensors_missing(id<MTLDevice> device) {
  const NSOperatingSystemVersion macos = NSProcessInfo.processInfo.operatingSystemVersion;
  if (macos.majorVersion >= 26 && [device supportsFamily:kFamilyMetal4]) return "";
  return "\nThe source mentions tensors of Metal 4: expected macOS 26 or later and a GPU of the family Metal 4, got "
         "macOS " +
         std::to_string(macos.majorVersion) + "." + std::to_string(macos.minorVersion) + " and " +
         to_string(device.name);
}

std::vector<std::string> sorted_names(id<MTLLibrary> library) {
  NSArray<NSString*>* functions = library.functionNames;
  std::vector<std::string> names;
  for (NSUInteger i = 0; i < functions.count; ++i) names.push_back(to_string([functions objectAtIndex:i]));
  std::sort(names.begin(), names.end());
  return names;
}

// The scalar types of function constants. In MTLDataType, a scalar type is followed by its vectors of 2, 3 and 4
// components (MTLDataTypeInt2 is MTLDataTypeInt + 1).
constexpr struct {
  MTLDataType type;
  const char* name;
} kScalars[] = {
    {MTLDataTypeFloat, "float"}, {MTLDataTypeHalf, "half"},     {MTLDataTypeBFloat, "bfloat"},
    {MTLDataTypeInt, "int"},     {MTLDataTypeUInt, "uint"},     {MTLDataTypeShort, "short"},
    {MTLDataTypeUShort, "ushort"}, {MTLDataTypeChar, "char"},   {MTLDataTypeUChar, "uchar"},
    {MTLDataTypeBool, "bool"},   {MTLDataTypeLong, "long"},     {MTLDataTypeULong, "ulong"},
};

FunctionConstant describe_constant(MTLFunctionConstant* constant) {
  FunctionConstant described{to_string(constant.name), uint32_t(constant.index), "", 1};
  for (const auto& scalar : kScalars)
    if (constant.type >= scalar.type && constant.type < scalar.type + 4) {
      described.scalar = scalar.name;
      described.components = uint32_t(constant.type - scalar.type) + 1;
    }
  return described;
}

// Returns the constants that a function declares, sorted by index.
std::vector<MTLFunctionConstant*> declared_constants(id<MTLFunction> function) {
  NSArray<MTLFunctionConstant*>* found = function.functionConstantsDictionary.allValues;
  std::vector<MTLFunctionConstant*> constants;
  for (NSUInteger i = 0; i < found.count; ++i) constants.push_back([found objectAtIndex:i]);
  std::sort(constants.begin(), constants.end(),
            [](MTLFunctionConstant* a, MTLFunctionConstant* b) { return a.index < b.index; });
  return constants;
}

// Converts the values of the constants in a key to Metal's type. `declared` contains the constants of the library, and
// `used` those of the function. Throws Error if a required value is missing.
Owned<MTLFunctionConstantValues*> constant_values(const FunctionKey& key, const std::vector<FunctionConstant>& declared,
                                                  const std::vector<MTLFunctionConstant*>& used) {
  const FunctionConstants given(key.name, declared, key.constants);
  auto values = Owned<MTLFunctionConstantValues*>::adopt([[MTLFunctionConstantValues alloc] init]);
  std::string missing;
  for (MTLFunctionConstant* constant : used) {
    size_t i = 0;
    while (declared[i].index != constant.index) ++i;
    if (const void* value = given.addresses()[i])
      [values.get() setConstantValue:value type:constant.type atIndex:constant.index];
    else if (constant.required)
      missing += (missing.empty() ? "" : ", ") + type_text(declared[i]) + " " + declared[i].name + " (index " +
                 std::to_string(declared[i].index) + ")";
  }
  if (!missing.empty())
    throw Error(key.name + ": expected values for the function constants " + missing + "; set them with " + key.name +
                ".with_constants(…)");
  return values;
}

}  // namespace

FunctionKey::FunctionKey(std::string_view key)
    : name(key.substr(0, key.find('|'))), constants(key.substr(std::min(name.size() + 1, key.size()))) {}

FunctionLibrary::FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& directory, bool tensors)
    : device_(std::move(device)), uses_tensors_(tensors) {
  AutoreleasePool pool;
  const std::string name = tensors ? "mpsx_tensor" : "mpsx";
  const std::string compiled = directory + "/" + name + ".metallib", source = directory + "/" + name + ".metal";
  if (access(compiled.c_str(), R_OK) == 0) {
    path_ = compiled;
    NSError* error = nil;
    library_ = Owned<id<MTLLibrary>>::adopt([device_.get() newLibraryWithURL:[NSURL fileURLWithPath:to_ns(compiled)]
                                                                      error:&error]);
    if (!library_) throw Error("cannot load the kernel library " + compiled + ": " + describe(error));
    names_ = sorted_names(library_.get());
    return;
  }
  if (access(source.c_str(), R_OK) != 0)
    throw Error("expected " + name + ".metallib or " + name + ".metal in " + directory +
                ": the installation is incomplete; reinstall mpsx");
  path_ = source;
  units_ = read_source_units(source);
  compiled_.resize(units_.size());
  for (size_t i = 0; i < units_.size(); ++i)
    for (const auto& kernel : units_[i].kernels) {
      unit_index_.emplace(kernel, i);
      names_.push_back(kernel);
    }
  std::sort(names_.begin(), names_.end());
}

FunctionLibrary::FunctionLibrary(Owned<id<MTLDevice>> device, const std::string& name, const std::string& text)
    : device_(std::move(device)) {
  AutoreleasePool pool;
  uses_tensors_ = mentions_tensors(text);
  library_ = compile({name, text, {}}, user_language());
  names_ = sorted_names(library_.get());
}

Owned<id<MTLLibrary>> FunctionLibrary::compile(const SourceUnit& unit, const Language& language) const {
  NSString* text = to_ns(unit.text);
  if (!text) throw Error(unit.name + ": expected UTF-8 text");
  const auto options = Owned<MTLCompileOptions*>::adopt([[MTLCompileOptions alloc] init]);
  options.get().languageVersion = language.version;
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  options.get().fastMathEnabled = language.fast_math;
#pragma clang diagnostic pop
// In macOS 15, fastMathEnabled was split into two options. Setting fastMathEnabled may leave the second option at fast,
// so set both.
#if !defined(__MAC_OS_X_VERSION_MAX_ALLOWED) || __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunguarded-availability-new"
  if ([options.get() respondsToSelector:@selector(setMathMode:)])
    options.get().mathMode = language.fast_math ? MTLMathModeFast : MTLMathModeSafe;
  if ([options.get() respondsToSelector:@selector(setMathFloatingPointFunctions:)])
    options.get().mathFloatingPointFunctions =
        language.fast_math ? MTLMathFloatingPointFunctionsFast : MTLMathFloatingPointFunctionsPrecise;
#pragma clang diagnostic pop
#endif
  NSError* error = nil;
  auto library =
      Owned<id<MTLLibrary>>::adopt([device_.get() newLibraryWithSource:text options:options.get() error:&error]);
  if (!library) {
    std::string message = "cannot compile " + unit.name + ": " + describe(error);
    if (uses_tensors_) message += tensors_missing(device_.get());
    if (error.code == MTLLibraryErrorCompileFailure) throw SyntaxError(message);
    throw Error(message);
  }
  return library;
}

id<MTLLibrary> FunctionLibrary::library_of(const std::string& function) {
  if (library_) return library_.get();
  const auto found = unit_index_.find(function);
  if (found == unit_index_.end()) return nil;
  auto& [library, error] = compiled_[found->second];
  if (library) return library.get();
  try {
    if (error.empty()) library = compile(units_[found->second], uses_tensors_ ? kTensorLanguage : kKernelLanguage);
  } catch (const SyntaxError& e) {
    error = e.what();
  } catch (const Error& e) {  // for example, the compiler's process crashed, so compile again next time
    throw Error(function + ": " + e.what());
  }
  if (!library) throw Error(function + ": " + error);
  return library.get();
}

// Returns the constants that a key may contain. For a user's shader, these are the constants of all its functions.
std::vector<FunctionConstant> FunctionLibrary::known_constants(const std::vector<MTLFunctionConstant*>& used) {
  std::map<uint32_t, FunctionConstant> all;
  const auto add = [&](const std::vector<MTLFunctionConstant*>& constants) {
    for (MTLFunctionConstant* constant : constants) all.emplace(constant.index, describe_constant(constant));
  };
  add(used);
  if (path_.empty()) {
    if (constants_.empty()) {
      for (const auto& name : names_)
        add(declared_constants(Owned<id<MTLFunction>>::adopt([library_.get() newFunctionWithName:to_ns(name)]).get()));
      constants_ = all;
    }
    all = constants_;
  }
  std::vector<FunctionConstant> known;
  for (auto& [index, constant] : all) known.push_back(std::move(constant));
  return known;
}

Owned<id<MTLFunction>> FunctionLibrary::function(const FunctionKey& key) {
  AutoreleasePool pool;
  std::lock_guard<std::mutex> lock(mutex_);
  // Do not look up unknown names in Metal, because that is slow and may write to the log.
  if (!std::binary_search(names_.begin(), names_.end(), key.name)) return {};
  id<MTLLibrary> library = library_of(key.name);
  auto plain = Owned<id<MTLFunction>>::adopt([library newFunctionWithName:to_ns(key.name)]);
  if (!plain) return {};
  const auto used = declared_constants(plain.get());
  if (key.constants.empty() && used.empty()) return plain;
  const auto values = constant_values(key, known_constants(used), used);
  NSError* error = nil;
  auto special = Owned<id<MTLFunction>>::adopt([library newFunctionWithName:to_ns(key.name)
                                                              constantValues:values.get()
                                                                       error:&error]);
  if (!special) throw Error(key.name + ": cannot set its function constants: " + describe(error));
  return special;
}

std::vector<std::string> FunctionLibrary::names() const { return names_; }

}  // namespace mpsx::driver::metal
