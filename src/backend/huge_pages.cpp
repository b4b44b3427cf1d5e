#include "backend/huge_pages.h"

#ifdef __linux__
#  include <c10/core/CPUAllocator.h>
#  include <sys/mman.h>

#  include <cstdlib>

namespace mpsx::backend {
namespace {

constexpr size_t kHugePage = size_t(2) << 20;

thread_local int depth = 0;

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator* plain) : plain_(plain) {}

  c10::DataPtr allocate(size_t bytes) override {
    void* p = nullptr;
    if (depth == 0 || bytes < kHugePage || posix_memalign(&p, kHugePage, bytes) != 0) return plain_->allocate(bytes);
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return {p, p, &std::free, c10::Device(c10::kCPU)};
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get() == data.get_context(); }
  // The plain allocator's, which ends in free() and so takes our memory too.
  c10::DeleterFnPtr raw_deleter() const override { return plain_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* plain_;
};

// Stays for the life of the process, as tensors name their allocator. Somebody else's allocator is left alone.
bool install() {
  auto* plain = c10::GetCPUAllocator();
  if (plain != c10::GetDefaultCPUAllocator()) return false;
  c10::SetCPUAllocator(new Allocator(plain));
  return true;
}

}  // namespace

HugePages::HugePages() {
  [[maybe_unused]] static const bool installed = install();
  ++depth;
}
HugePages::~HugePages() { --depth; }

}  // namespace mpsx::backend

#else

namespace mpsx::backend {
HugePages::HugePages() = default;
HugePages::~HugePages() = default;
}  // namespace mpsx::backend

#endif
