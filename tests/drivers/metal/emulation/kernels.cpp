#include "kernels.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "driver/host/simt/dispatch.h"
#include "driver/host/simt/engine.h"

namespace emulation {

std::shared_ptr<KernelImage> KernelImage::open(const std::string& path, std::string* reason) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* table = library ? static_cast<const mpsx_kernel_table_t*>(dlsym(library, "mpsx_kernel_table")) : nullptr;
  if (!table || table->abi_version != MPSX_KERNEL_ABI_VERSION) {
    *reason = library ? "not a library of kernels of this version" : dlerror();
    return nullptr;
  }
  *table->simt = &mpsx::driver::host::simt::kServices;
  auto image = std::make_shared<KernelImage>();
  for (unsigned i = 0; i < table->count; ++i) {
    const mpsx_kernel_record* record = table->records[i];
    if (record->unit != MPSX_UNIT_SIMT) {
      *reason = "kernel " + std::string(record->name) + " was not translated with --mode simt";
      return nullptr;
    }
    image->records_.emplace(record->name, record);
  }
  if (const auto* text = static_cast<const char*>(dlsym(library, "mpsx_emulated_reflection"))) image->read_facts(text);
  return image;
}

void KernelImage::read_facts(const char* text) {
  std::istringstream in(text);
  for (const auto& [name, record] : records_) facts_[name];
  for (std::string line, name, kind, number, what, more, element, rank; std::getline(in, line);) {
    std::istringstream words(line);
    for (std::string* word : {&name, &kind, &number, &what, &more, &element, &rank}) std::getline(words, *word, '\t');
    KernelFacts& facts = facts_[name];
    const auto index = unsigned(std::stoul(number));
    if (kind != "constant") {
      facts.bindings.push_back({index, kind == "threadgroup", what, more});
      if (kind == "tensor") {
        KernelBinding& b = facts.bindings.back();
        b.tensor = true;
        b.element = std::stol(element);
        b.sizes.assign(std::stoul(rank), -1);
      }
      continue;
    }
    facts.constants.insert(index);
    if (more == "0") facts.optional_constants.insert(index);
  }
}

const KernelFacts* KernelImage::facts(const std::string& name) const {
  const auto found = facts_.find(name);
  return found == facts_.end() ? nullptr : &found->second;
}

std::shared_ptr<KernelImage> KernelImage::compile(const std::string& source, std::string* reason) {
  const char* compiler = std::getenv("MPSX_EMULATION_COMPILER");
  char directory[] = "/tmp/emulated-metal.XXXXXX";
  if (!compiler || !mkdtemp(directory)) {
    *reason = "no compiler";
    return nullptr;
  }
  const std::string base = directory, in = base + "/source.metal", out = base + "/source.so", said = base + "/said";
  std::ofstream(in) << "#line 1 \"program_source\"\n" << source;
  const int status = std::system((std::string(compiler) + " " + in + " " + out + " >" + said + " 2>&1").c_str());
  std::shared_ptr<KernelImage> image;
  if (status == 0) {
    image = open(out, reason);
  } else {
    std::ostringstream text;
    text << std::ifstream(said).rdbuf();
    *reason = text.str();
  }
  for (const auto& file : {in, out, said}) unlink(file.c_str());
  rmdir(directory);
  return image;
}

const mpsx_kernel_record* KernelImage::find(const std::string& name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : found->second;
}

std::vector<std::string> KernelImage::names() const {
  std::vector<std::string> names;
  for (const auto& [name, record] : records_) names.push_back(name);
  return names;
}

void Launch::run() {
  using mpsx::driver::Argument;
  namespace simt = mpsx::driver::host::simt;
  static const simt::Options options{simt::configured_seed(), true};
  std::vector<Argument> arguments;
  void* args[MPSX_MAX_ARGUMENTS] = {};
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer& b = buffers[i];
    if (b.value.empty()) {
      arguments.push_back({Argument::Kind::buffer, b.base, b.offset, b.access, b.begin, b.end});
      args[i] = static_cast<char*>(b.base) + b.offset;
    } else {
      arguments.push_back({Argument::Kind::bytes, b.value.data(), b.value.size()});
      args[i] = b.value.data();
    }
  }
  for (size_t bytes : threadgroup_bytes) arguments.push_back({Argument::Kind::threadgroup, nullptr, bytes});
  const auto one_core = [](uint64_t total, uint64_t, const std::function<void(uint64_t, uint64_t)>& body) {
    body(0, total);
  };
  std::vector<const void*> values(std::max<size_t>(constants.size(), 1));
  for (size_t i = 0; i < constants.size(); ++i) values[i] = constants[i] ? constants[i]->data() : nullptr;
  simt::dispatch(*record, args, values.data(), arguments.data(), arguments.size(), shape, options, one_core);
}

}  // namespace emulation
