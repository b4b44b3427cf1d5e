// Two c10 functions parse and print device names. They use a fixed list, in which "mps" comes before any out-of-tree
// device. PyTorch's libraries call them through the dynamic linker's tables. When the alias is first enabled, these
// table entries are replaced with our own functions.
#include "backend/mps_alias.h"

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <string_view>
#ifdef __linux__
#  include <link.h>
#  include <sys/mman.h>
#  include <unistd.h>
#endif

#include "backend/device.h"

namespace mpsx::backend {
namespace {

std::atomic<bool> named_mps{false};

// Replaces c10::Device(const std::string&). While the alias is enabled, c10 itself accepts only "privateuseone" as the
// name of the device.
void construct(c10::Device* device, const std::string& text) {
  const size_t end = std::min(text.find(':'), text.size());
  const std::string_view type = std::string_view(text).substr(0, end);
  const bool ours = has_mps_alias() && (type == "mps" || type == "mpsx");
  new (device) c10::Device(ours ? "privateuseone" + text.substr(end) : text);
}

// Replaces c10::get_privateuse1_backend(bool), which c10 also calls to print device types.
std::string backend_name(bool lower_case) {
  if (!has_mps_alias()) return c10::get_privateuse1_backend(lower_case);
  return lower_case ? "mps" : "MPS";
}

#ifdef __linux__

struct Replacement {
  std::string_view symbol;
  void* function;
};
const Replacement kReplacements[] = {
    {"_ZN3c106DeviceC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", reinterpret_cast<void*>(&construct)},
    {"_ZN3c1023get_privateuse1_backendB5cxx11Eb", reinterpret_cast<void*>(&backend_name)},
};

void write(void** slot, void* function) {
  const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  void* start = reinterpret_cast<void*>(uintptr_t(slot) & ~(page - 1));
  TORCH_CHECK(mprotect(start, page, PROT_READ | PROT_WRITE) == 0, "as_mps: cannot write to the linker's tables");
  *slot = function;
}

// Replaces the functions in one relocation table of a shared object. Returns the number of replaced entries.
int replace_in(ElfW(Addr) base, const ElfW(Rela) * table, size_t bytes, const ElfW(Sym) * symbols, const char* names) {
  int found = 0;
  for (const auto* entry = table; entry < table + bytes / sizeof *table; ++entry) {
    const char* name = names + symbols[ELF64_R_SYM(entry->r_info)].st_name;
    for (const Replacement& r : kReplacements)
      if (r.symbol == name) {
        write(reinterpret_cast<void**>(base + entry->r_offset), r.function);
        ++found;
      }
  }
  return found;
}

int replace_in(dl_phdr_info* object, size_t, void* found) {
  const std::string_view path = object->dlpi_name ? object->dlpi_name : "";
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.starts_with("libtorch") && !file.starts_with("libc10")) return 0;
  const ElfW(Rela) * tables[2] = {};
  size_t bytes[2] = {};
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    for (auto* d = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
         d->d_tag != DT_NULL; ++d) {
      switch (d->d_tag) {
        case DT_JMPREL: tables[0] = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr); break;
        case DT_PLTRELSZ: bytes[0] = d->d_un.d_val; break;
        case DT_RELA: tables[1] = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr); break;
        case DT_RELASZ: bytes[1] = d->d_un.d_val; break;
        case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr); break;
        case DT_STRTAB: names = reinterpret_cast<const char*>(d->d_un.d_ptr); break;
        default: break;
      }
    }
  }
  for (int i = 0; symbols && names && i < 2; ++i)
    *static_cast<int*>(found) += replace_in(object->dlpi_addr, tables[i], bytes[i], symbols, names);
  return 0;
}

void replace() {
  static const int found = [] {
    int n = 0;
    dl_iterate_phdr(&replace_in, &n);
    return n;
  }();
  TORCH_CHECK(found >= 3, "as_mps: not supported by this version of torch; use mpsx instead of mps");
}

#else

void replace() { TORCH_CHECK(false, "as_mps: only supported on Linux; use mpsx instead of mps"); }

#endif

}  // namespace

void set_mps_alias(bool on) {
  if (on) replace();
  named_mps.store(on, std::memory_order_relaxed);
}

bool has_mps_alias() { return named_mps.load(std::memory_order_relaxed); }

}  // namespace mpsx::backend
