#include "runtime/kernel_library.h"

#include <c10/util/Exception.h>

#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "runtime/device.h"
#include "runtime/kernel_registry.h"

namespace mpsx::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  std::deque<KernelEntry> entries;  // a deque, because addresses of entries must not change
  std::unordered_map<std::string, KernelEntry*> by_name;
  std::unordered_multimap<std::string, KernelEntry*> retired;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

// The caller must hold the registry's mutex.
KernelEntry& new_entry(Registry& r, const driver::Kernel& kernel, const std::string& name) {
  KernelEntry& entry = r.entries.emplace_back();
  entry.kernel = &kernel;
  entry.name = name;
  return entry;
}

const std::unordered_set<std::string>& library_names() {
  static const auto* const names = [] {
    const std::vector<std::string> all = driver().kernel_names();
    return new std::unordered_set<std::string>(all.begin(), all.end());
  }();
  return *names;
}

}  // namespace

KernelEntry& find_kernel(const std::string& name) {
  Registry& r = registry();
  std::unique_lock<std::mutex> lock(r.mutex);
  if (const auto it = r.by_name.find(name); it != r.by_name.end()) return *it->second;
  lock.unlock();  // on a GPU, loading takes up to a second, and other threads load other kernels meanwhile
  const driver::Kernel* kernel = driver().kernel(name);
  TORCH_CHECK(kernel, "mpsx: the kernel library has no kernel \"", name, "\"");
  lock.lock();
  KernelEntry*& entry = r.by_name[name];
  if (!entry) entry = &new_entry(r, *kernel, name);
  return *entry;
}

KernelEntry& add_kernel(const driver::Kernel& kernel, const std::string& name) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto known = r.retired.find(name);
  if (known == r.retired.end()) return new_entry(r, kernel, name);
  KernelEntry& entry = *known->second;
  r.retired.erase(known);
  entry.kernel = &kernel;
  return entry;
}

void retire_kernel(KernelEntry& entry) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  entry.kernel = nullptr;
  r.retired.emplace(entry.name, &entry);
}

void for_each_kernel(const std::function<void(KernelEntry&)>& visit) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  for (auto& entry : r.entries) visit(entry);
}

std::string KernelSet::name(Tag in, Tag out) const {
  std::string n = stem_;
  for (Tag t : {in, out})
    if (t != Tag::none) n += std::string("_") + runtime::name(t);
  return n;
}

bool KernelSet::has(Tag in, Tag out) const {
  auto& exists = exists_[index(in, out)];
  Exists e = exists.load(std::memory_order_relaxed);
  if (e == Exists::unknown) {
    e = library_names().count(name(in, out)) ? Exists::yes : Exists::no;
    exists.store(e, std::memory_order_relaxed);
  }
  return e == Exists::yes;
}

KernelEntry& KernelSet::load(Tag in, Tag out) const {
  KernelEntry& entry = find_kernel(name(in, out));
  loaded_[index(in, out)].store(&entry, std::memory_order_release);
  return entry;
}

}  // namespace mpsx::runtime
