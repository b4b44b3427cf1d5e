// Looks up a kernel by name the first time, and by array index from then on.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "driver/driver.h"
#include "runtime/dtype.h"

namespace mpsx::runtime {

// A kernel and its launch statistics. Entries are never destroyed.
struct KernelEntry {
  const driver::Kernel* kernel;
  std::string name;
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> nanoseconds{0};  // updated only while profiling; see profile.h
};

// Returns the kernel of that name. If the library does not contain it, throws an error that names the kernel.
KernelEntry& find_kernel(const std::string& name);

// All instantiations of the kernel `stem`, named `stem`, `stem_<in>` or `stem_<in>_<out>`. Declare a set `static
// const`.
class KernelSet {
 public:
  explicit KernelSet(std::string stem) : stem_(std::move(stem)) {}
  KernelEntry& get(Tag in = Tag::none, Tag out = Tag::none) const {
    auto* e = loaded_[index(in, out)].load(std::memory_order_acquire);
    return e ? *e : load(in, out);
  }
  // Does not load the kernel: on a GPU this would compile it, which takes up to a second.
  bool has(Tag in = Tag::none, Tag out = Tag::none) const;
  std::string name(Tag in = Tag::none, Tag out = Tag::none) const;

 private:
  static constexpr size_t index(Tag in, Tag out) { return size_t(in) * (kTags + 1) + size_t(out); }
  KernelEntry& load(Tag in, Tag out) const;
  std::string stem_;
  enum class Exists : uint8_t { unknown, yes, no };
  template <typename T>
  using PerInstantiation = std::array<std::atomic<T>, (kTags + 1) * (kTags + 1)>;
  mutable PerInstantiation<KernelEntry*> loaded_{};
  mutable PerInstantiation<Exists> exists_{};
};

}  // namespace mpsx::runtime
